// Scenarios of the areas "Consumer groups" and "Groups and offsets, administered".
'use strict'

const { AssignerProtocol } = require('kafkajs')

const { equal, eventually, numbered, refused, holds } = require('./run')

const PARTITIONS = 4
const EACH = 25
const text = (value) => value && value.toString()

async function eager(run) {
  const topic = await run.topic(PARTITIONS)
  const everything = [0, 1, 2, 3]
  const one = await run.member(topic, topic)
  await eventually('everything for one member', () => one.held.length === PARTITIONS)
  const two = await run.member(topic, topic)
  await eventually('a share for each', () => one.held.length === 2 && two.held.length === 2)
  equal([...one.held, ...two.held].sort(), everything, 'partitions of both')
  const messages = Array.from({ length: PARTITIONS * EACH }, (_, i) => ({ value: `shared ${i}`, partition: i % PARTITIONS }))
  await run.send(topic, messages)
  await eventually('every record', () => one.records.length + two.records.length >= messages.length)
  const found = [...one.records, ...two.records].map((record) => text(record.value))
  equal(found.sort(), messages.map((message) => message.value).sort(), 'each record once')
  for (const member of [one, two]) {
    await member.consumer.commitOffsets(member.held.map((partition) => ({ topic, partition, offset: String(EACH) })))
  }
  await one.consumer.disconnect()
  await eventually('everything for the other', () => two.held.length === PARTITIONS)
  const committed = await run.committed(topic)
  equal(everything.map((partition) => committed[partition][0]), [EACH, EACH, EACH, EACH], 'committed')
}

async function commitMetadata(run) {
  const topic = await run.topic()
  await run.send(topic, numbered(10))
  const one = await run.member(topic, topic)
  await one.next(10)
  await one.consumer.commitOffsets([{ topic, partition: 0, offset: '4', metadata: 'see page 7' }])
  equal(await run.committed(topic), { 0: [4, 'see page 7'] }, 'offset and metadata')
  await one.consumer.disconnect()
  const two = await run.member(topic, topic)
  equal((await two.next(6)).map((record) => record.offset), [4, 5, 6, 7, 8, 9], 'what was not committed')
}

async function autoCommit(run) {
  const topic = await run.topic()
  await run.send(topic, numbered(10))
  const one = await run.member(topic, topic, {}, { autoCommit: true })
  await one.next(10)
  await one.consumer.disconnect()
  equal((await run.committed(topic))[0][0], 10, 'committed')
}

// ---- administered

const described = async (run, group) => (await run.admin.describeGroups([group])).groups[0]

async function groupsDescribe(run) {
  const topic = await run.topic(2)
  const member = await run.member(topic, topic, { clientId: 'who' })
  await eventually('an assignment', () => member.held.length === 2)
  const { groups } = await run.admin.listGroups()
  holds(groups.some((group) => group.groupId === topic), 'not listed')
  const found = await described(run, topic)
  equal([found.state, found.members.length, found.members[0].clientId], ['Stable', 1, 'who'], 'the group')
  const { assignment } = AssignerProtocol.MemberAssignment.decode(found.members[0].memberAssignment)
  equal(assignment, { [topic]: [0, 1] }, 'the assignment')
  await member.consumer.disconnect()
  await eventually('an empty group', async () => (await described(run, topic)).state === 'Empty')
}

/** A group without members that has committed 5 on each of two partitions; named as its topic. */
async function committedGroup(run) {
  const topic = await run.topic(2)
  await run.send(topic, Array.from({ length: 16 }, (_, i) => ({ value: `${Math.floor(i / 2)}`, partition: i % 2 })))
  const member = await run.member(topic, topic)
  await member.next(16)
  await member.consumer.commitOffsets([0, 1].map((partition) => ({ topic, partition, offset: '5', metadata: 'five' })))
  await member.consumer.disconnect()
  return topic
}

async function offsetsList(run) {
  equal(await run.committed(await committedGroup(run)), { 0: [5, 'five'], 1: [5, 'five'] }, 'offsets')
}

async function offsetsAlter(run) {
  const group = await committedGroup(run)
  const partitions = [{ partition: 0, offset: '8' }, { partition: 1, offset: '2' }]
  await run.admin.setOffsets({ groupId: group, topic: group, partitions })
  const found = await run.committed(group)
  equal([found[0][0], found[1][0]], [8, 2], 'offsets')
  const member = await run.member(group, group)
  const read = (await member.next(6)).map((record) => [record.partition, record.offset])
  equal(read, [2, 3, 4, 5, 6, 7].map((offset) => [1, offset]), 'what is read')
}

async function groupsDelete(run) {
  const group = await committedGroup(run)
  const member = await run.member(group, group)
  await eventually('an assignment', () => member.held.length === 2)
  await refused('NON_EMPTY_GROUP', () => run.admin.deleteGroups([group]))
  await member.consumer.disconnect()
  await run.admin.deleteGroups([group])
  const { groups } = await run.admin.listGroups()
  holds(!groups.some((one) => one.groupId === group), 'still listed')
  await refused('GROUP_ID_NOT_FOUND', () => run.admin.deleteGroups([group]))
}

module.exports = {
  'group-eager': eager,
  'commit-metadata': commitMetadata,
  'auto-commit': autoCommit,
  'groups-describe': groupsDescribe,
  'group-offsets-list': offsetsList,
  'group-offsets-alter': offsetsAlter,
  'groups-delete': groupsDelete,
}
