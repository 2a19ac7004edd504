// Scenarios of the areas "Topics and configs" and "Cluster".
'use strict'

const { ConfigResourceTypes } = require('kafkajs')

const { BASE_MS, equal, eventually, numbered, refused, holds } = require('./run')

const DEFAULT_CONFIG = 5

async function configs(run, name, type = ConfigResourceTypes.TOPIC) {
  const { resources } = await run.admin.describeConfigs({ resources: [{ type, name }], includeSynonyms: false })
  return Object.fromEntries(resources[0].configEntries.map((row) => [row.configName, row]))
}

async function partitionsOf(run, topic) {
  const { topics } = await run.admin.fetchTopicMetadata({ topics: [topic] })
  return topics[0].partitions
}

async function topicCreate(run) {
  const topic = await run.topic(3, { 'retention.ms': '777000' })
  equal((await partitionsOf(run, topic)).length, 3, 'partitions')
  equal((await configs(run, topic))['retention.ms'].configValue, '777000', 'retention.ms')
  holds((await run.admin.createTopics({ topics: [{ topic }] })) === false, 'created twice')
  await refused('INVALID_CONFIG', () => run.topic(1, { 'retention.ms': 'soon' }, run.part('bad')))
  await run.admin.createTopics({ topics: [{ topic: run.part('wish') }], validateOnly: true, waitForLeaders: false })
  holds(!(await run.admin.listTopics()).includes(run.part('wish')), 'created though only validated')
}

async function topicDescribe(run) {
  const topic = await run.topic(5)
  holds((await run.admin.listTopics()).includes(topic), 'not listed')
  const { brokers } = await run.admin.describeCluster()
  const found = await partitionsOf(run, topic)
  equal(found.map((one) => one.partitionId).sort(), [0, 1, 2, 3, 4], 'partitions')
  holds(found.every((one) => one.leader === brokers[0].nodeId), 'another leader')
  await refused('UNKNOWN_TOPIC_OR_PARTITION', () => partitionsOf(run, run.part('nothing')))
}

async function topicDelete(run) {
  const topic = await run.topic()
  await run.admin.deleteTopics({ topics: [topic] })
  await eventually('no topic', async () => !(await run.admin.listTopics()).includes(topic))
  await refused('UNKNOWN_TOPIC_OR_PARTITION', () => run.admin.deleteTopics({ topics: [topic] }))
}

async function partitionsCreate(run) {
  const topic = await run.topic(2)
  const grow = (count) => run.admin.createPartitions({ topicPartitions: [{ topic, count }] })
  await grow(5)
  await eventually('five partitions', async () => (await partitionsOf(run, topic)).length === 5)
  await refused('INVALID_PARTITIONS', () => grow(3))
  await run.send(topic, [{ value: 'new', partition: 4 }])
  const [found] = await run.read(topic, 1)
  equal([found.partition, String(found.value)], [4, 'new'], 'the record of a new partition')
}

async function configsDescribe(run) {
  const found = await configs(run, await run.topic(1, { 'retention.bytes': '1000' }))
  equal([found['retention.bytes'].configValue, found['retention.bytes'].isDefault], ['1000', false], 'what was set')
  equal([found['segment.bytes'].configValue, found['segment.bytes'].configSource], ['1073741824', DEFAULT_CONFIG], 'what was not')
  const { brokers } = await run.admin.describeCluster()
  const broker = await configs(run, String(brokers[0].nodeId), ConfigResourceTypes.BROKER)
  equal(broker['num.partitions'].configValue, '1', "the broker's num.partitions")
}

async function configsAlterFull(run) {
  const topic = await run.topic(1, { 'retention.bytes': '5000' })
  const alter = (value) =>
    run.admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'retention.ms', value }] }],
    })
  await alter('777000')
  await eventually('the change', async () => (await configs(run, topic))['retention.ms'].configValue === '777000')
  equal((await configs(run, topic))['retention.bytes'].configValue, '-1', 'what was not named')
  await refused('INVALID_CONFIG', () => alter('soon'))
}

async function recordsDelete(run) {
  const topic = await run.topic()
  await run.send(topic, numbered(10))
  await run.admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '4' }] })
  const [found] = await run.admin.fetchTopicOffsets(topic)
  equal([found.low, found.high], ['4', '10'], 'watermarks')
  equal((await run.read(topic, 6))[0].offset, 4, 'the first record that is left')
}

async function offsetsList(run) {
  const topic = await run.topic(1, { 'retention.ms': '-1' })
  for (const later of [0, 500, 200]) {
    await run.send(topic, [{ value: 'x', timestamp: String(BASE_MS + later) }])
  }
  const [found] = await run.admin.fetchTopicOffsets(topic)
  equal([found.low, found.high], ['0', '3'], 'earliest and latest')
  equal((await run.admin.fetchTopicOffsetsByTimestamp(topic, BASE_MS + 100))[0].offset, '1', 'by time')
}

async function clusterDescribe(run) {
  const { brokers, controller, clusterId } = await run.admin.describeCluster()
  equal(brokers.map((broker) => `${broker.host}:${broker.port}`), [run.bootstrap], 'addresses')
  equal([controller, clusterId.length], [brokers[0].nodeId, 22], 'controller, characters of the id')
}

async function reassignments(run) {
  const topic = await run.topic()
  const { brokers } = await run.admin.describeCluster()
  const partitionAssignment = [{ partition: 0, replicas: [brokers[0].nodeId] }]
  await run.admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment }] })
  const { topics } = await run.admin.listPartitionReassignments({})
  equal(topics, [], 'reassignments under way')
}

module.exports = {
  'topic-create': topicCreate,
  'topic-describe': topicDescribe,
  'topic-delete': topicDelete,
  'partitions-create': partitionsCreate,
  'configs-describe': configsDescribe,
  'configs-alter-full': configsAlterFull,
  'records-delete': recordsDelete,
  'offsets-list': offsetsList,
  'cluster-describe': clusterDescribe,
  reassignments,
}
