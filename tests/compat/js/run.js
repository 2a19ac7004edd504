// One scenario: names of its own, clients that are closed afterwards, and what must hold.
'use strict'

const { isDeepStrictEqual } = require('node:util')

const { CompressionCodecs, CompressionTypes, Kafka, Partitioners, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const { ZstdCodec } = require('zstd-codec')

const DEADLINE_MS = 60_000
const PAUSE_MS = 10

// kafkajs brings gzip; the other codecs are for its users to plug in.
const zstd = new Promise((resolve) => ZstdCodec.run((loaded) => resolve(new loaded.Simple())))
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from((await zstd).decompress(buffer)),
})

class Run {
  constructor(bootstrap, name) {
    this.bootstrap = bootstrap
    this.name = name
    this.kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 20, retries: 5 } })
    this.admin = this.kafka.admin()
    this.clients = [this.admin]
  }

  async open() {
    await this.admin.connect()
  }

  async close() {
    for (const client of this.clients) {
      await client.disconnect().catch(() => undefined)
    }
  }

  part(part) {
    return `${this.name}.${part}`
  }

  async topic(partitions = 1, configs = {}, name = this.name) {
    const configEntries = Object.entries(configs).map(([key, value]) => ({ name: key, value }))
    const topics = [{ topic: name, numPartitions: partitions, replicationFactor: 1, configEntries }]
    await this.admin.createTopics({ topics, waitForLeaders: false })
    // Apache Kafka may answer before its metadata know the topic and every partition has its leader.
    await eventually(`leaders of ${name}`, () =>
      this.admin.fetchTopicOffsets(name).then((found) => found.length === partitions, () => false)
    )
    return name
  }

  async producer(options = {}) {
    const producer = this.kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...options })
    this.clients.push(producer)
    await producer.connect()
    return producer
  }

  /** With a producer of its own; the answer's first offset. */
  async send(topic, messages, options = {}, producerOptions = {}) {
    const producer = await this.producer(producerOptions)
    const answers = await producer.send({ topic, messages, acks: -1, ...options })
    await producer.disconnect()
    return answers
  }

  /** A member of a group; kafkajs has no other consumers. It starts at the beginning. */
  async member(group, topic, options = {}, runOptions = {}) {
    const { clientId = 'compat', fromBeginning = true, ...settings } = options
    const kafka = new Kafka({ brokers: [this.bootstrap], clientId, logLevel: logLevel.NOTHING, retry: { initialRetryTime: 20 } })
    const consumer = kafka.consumer({
      groupId: group,
      heartbeatInterval: 100,
      sessionTimeout: 10_000,
      maxWaitTimeInMs: 100,
      maxBytesPerPartition: 8 << 20,
      ...settings,
    })
    const member = new Member(consumer)
    this.clients.push(consumer)
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning })
    await consumer.run({ autoCommit: false, eachMessage: async (payload) => member.take(payload), ...runOptions })
    return member
  }

  /** Exactly `count` records, from the beginning. */
  async read(topic, count) {
    const reader = await this.member(`${topic}.reader`, topic)
    const found = await reader.next(count)
    await reader.consumer.disconnect()
    return found
  }

  async committed(group) {
    const [found] = await this.admin.fetchOffsets({ groupId: group, topics: [group] })
    const rows = found.partitions.filter((row) => row.offset !== '-1')
    return Object.fromEntries(rows.map((row) => [row.partition, [Number(row.offset), row.metadata]]))
  }
}

/** A consumer and what it was told and given. */
class Member {
  constructor(consumer) {
    this.consumer = consumer
    this.records = []
    this.rebalances = 0
    this.held = []
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      this.rebalances += 1
      this.held = Object.values(payload.memberAssignment).flat().sort()
    })
  }

  take({ topic, partition, message }) {
    this.records.push({ topic, partition, ...message, offset: Number(message.offset) })
  }

  /** The next records, exactly that many. */
  async next(count) {
    await eventually(`${count} records`, () => this.records.length >= count)
    const found = this.records.splice(0)
    equal(found.length, count, 'records')
    return found
  }
}

const numbered = (count) =>
  Array.from({ length: count }, (_, i) => ({ key: `key ${i}`, value: `value ${i} `.repeat(20), partition: 0 }))

function checkNumbered(found, count) {
  const text = (buffer) => buffer && buffer.toString()
  equal(
    found.map((one) => [one.offset, text(one.key), text(one.value)]),
    numbered(count).map((one, i) => [i, one.key, one.value]),
    'the records'
  )
}

// ---- what must hold

function equal(found, expected, what) {
  if (!isDeepStrictEqual(found, expected)) {
    throw new Error(`${what}: ${JSON.stringify(found)?.slice(0, 300)}, not ${JSON.stringify(expected)?.slice(0, 300)}`)
  }
}

function holds(condition, what) {
  if (!condition) {
    throw new Error(what)
  }
}

/** The broker says no, with this error; kafkajs wraps some errors in others. */
async function refused(type, call) {
  try {
    await call()
  } catch (error) {
    const types = [error, error.cause, ...(error.errors || []), ...(error.groups || [])].map((one) => one?.type ?? one?.error?.type)
    holds(types.includes(type), `refused with ${error} (${types}), not ${type}`)
    return
  }
  throw new Error(`not refused with ${type}`)
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

async function eventually(what, condition) {
  for (const end = Date.now() + DEADLINE_MS; Date.now() < end; await pause(PAUSE_MS)) {
    if (await condition()) {
      return
    }
  }
  throw new Error(`never: ${what}`)
}

module.exports = { Run, numbered, checkNumbered, equal, holds, refused, eventually, pause, BASE_MS: 1_700_000_000_000 }
