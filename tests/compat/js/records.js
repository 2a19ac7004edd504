// Scenarios of the area "Records": what goes in comes out.
'use strict'

const { CompressionTypes } = require('kafkajs')

const { BASE_MS, checkNumbered, equal, numbered, refused, holds } = require('./run')

const exchange = (count, options = {}, producerOptions = {}) => async (run) => {
  const topic = await run.topic()
  const [answer] = await run.send(topic, numbered(count), options, producerOptions)
  equal(answer.baseOffset, '0', 'the offset told to the producer')
  checkNumbered(await run.read(topic, count), count)
}

/** kafkajs makes one batch of what one call is given, so many calls make many batches. */
async function idempotent(run) {
  const topic = await run.topic()
  const producer = await run.producer({ idempotent: true, maxInFlightRequests: 1 })
  const messages = numbered(1000)
  for (let i = 0; i < 1000; i += 20) {
    const [answer] = await producer.send({ topic, messages: messages.slice(i, i + 20), acks: -1 })
    equal(answer.baseOffset, String(i), 'the offset told to the producer')
  }
  checkNumbered(await run.read(topic, 1000), 1000)
}

async function acks(run) {
  for (const level of [0, 1, -1]) {
    const topic = await run.topic(1, {}, run.part(`acks${level}`))
    await run.send(topic, numbered(10), { acks: level })
    checkNumbered(await run.read(topic, 10), 10)
  }
}

const text = (value) => (Array.isArray(value) ? value.map(text) : value && value.toString())

const headers = (wanted) => async (run) => {
  const topic = await run.topic()
  await run.send(topic, [{ key: 'k', value: 'v', headers: wanted }])
  const [found] = await run.read(topic, 1)
  equal(Object.fromEntries(Object.entries(found.headers).map(([key, value]) => [key, text(value)])), wanted, 'headers')
}

async function nulls(run) {
  const topic = await run.topic()
  const pairs = [[null, 'v'], ['k', null], ['', 'v'], ['k', '']]
  await run.send(topic, pairs.map(([key, value]) => ({ key, value, partition: 0 })))
  const found = await run.read(topic, pairs.length)
  equal(found.map((one) => [text(one.key), text(one.value)]), pairs, 'keys and values')
}

async function large(run) {
  const topic = await run.topic(1, { 'max.message.bytes': '4000000' })
  const values = ['A', 'B', 'C'].map((letter) => Buffer.alloc(1 << 20, letter))
  await run.send(topic, values.map((value) => ({ value })))
  const found = await run.read(topic, 3)
  holds(found.every((one, i) => one.value.equals(values[i])), 'a value changed')
}

async function tooLarge(run) {
  const topic = await run.topic(1, { 'max.message.bytes': '100000' })
  await refused('MESSAGE_TOO_LARGE', () => run.send(topic, [{ value: Buffer.alloc(200_000) }]))
  equal((await run.admin.fetchTopicOffsets(topic))[0].high, '0', 'the end of the log')
}

async function partitions(run) {
  const topic = await run.topic(100)
  const { topics } = await run.admin.fetchTopicMetadata({ topics: [topic] })
  equal(topics[0].partitions.length, 100, 'partitions')
  await run.send(topic, Array.from({ length: 100 }, (_, i) => ({ value: `for ${i}`, partition: i })))
  for (const one of await run.read(topic, 100)) {
    equal(text(one.value), `for ${one.partition}`, 'the record of its partition')
  }
}

async function timestamps(run) {
  const kept = await run.topic(1, { 'retention.ms': '-1' }, run.part('create'))
  const stamped = await run.topic(1, { 'message.timestamp.type': 'LogAppendTime' }, run.part('append'))
  const before = Date.now()
  for (const topic of [kept, stamped]) {
    await run.send(topic, [{ value: 'v', timestamp: String(BASE_MS) }])
  }
  equal((await run.read(kept, 1))[0].timestamp, String(BASE_MS), 'create time')
  const [found] = await run.read(stamped, 1)
  holds(Number(found.timestamp) >= before, `append time ${found.timestamp}`)
}

async function autoCreate(run) {
  const [answer] = await run.send(run.name, [{ value: 'first' }])
  equal(answer.baseOffset, '0', 'its offset')
  equal(text((await run.read(run.name, 1))[0].value), 'first', 'its value')
}

module.exports = {
  'round-trip': exchange(500),
  gzip: exchange(500, { compression: CompressionTypes.GZIP }),
  snappy: exchange(500, { compression: CompressionTypes.Snappy }),
  lz4: exchange(500, { compression: CompressionTypes.LZ4 }),
  zstd: exchange(500, { compression: CompressionTypes.ZSTD }),
  acks,
  idempotent,
  batching: exchange(2000),
  headers: headers({ trace: 'abc', repeated: ['1', '2'], empty: '' }),
  'null-headers': headers({ nothing: null, something: 'x' }),
  nulls,
  large,
  'too-large': tooLarge,
  partitions,
  timestamps,
  'auto-create': autoCreate,
}
