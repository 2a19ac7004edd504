// Scenarios of the area "Reading": where a consumer may start, stop and wait.
'use strict'

const { BASE_MS, checkNumbered, equal, eventually, numbered, pause, refused } = require('./run')

const text = (value) => value && value.toString()

async function seekTime(run) {
  const topic = await run.topic(1, { 'retention.ms': '-1' })
  for (const later of [0, 1, 2, 1000, 1001]) {
    await run.send(topic, [{ value: `at ${later}`, timestamp: String(BASE_MS + later) }])
  }
  for (const [later, offset] of [[-1, '0'], [1, '1'], [3, '3'], [1001, '4']]) {
    const [found] = await run.admin.fetchTopicOffsetsByTimestamp(topic, BASE_MS + later)
    equal(found.offset, offset, `the offset at ${later} ms`)
  }
  const reader = await run.member(topic, topic)
  await reader.next(5)
  const [place] = await run.admin.fetchTopicOffsetsByTimestamp(topic, BASE_MS + 3)
  reader.consumer.seek({ topic, partition: 0, offset: place.offset })
  equal((await reader.next(2)).map((one) => text(one.value)), ['at 1000', 'at 1001'], 'what follows')
}

async function seekEnds(run) {
  const topic = await run.topic()
  await run.send(topic, numbered(100))
  const reader = await run.member(topic, topic)
  const seek = (offset) => reader.consumer.seek({ topic, partition: 0, offset: String(offset) })
  checkNumbered(await reader.next(100), 100)
  for (const start of [57, 3, 99]) {
    seek(start)
    const [first] = await reader.next(100 - start)
    equal([first.offset, text(first.key)], [start, `key ${start}`], 'the first record')
  }
  // kafkajs seeks to offsets only, which its admin client tells.
  const [ends] = await run.admin.fetchTopicOffsets(topic)
  seek(ends.low)
  checkNumbered(await reader.next(100), 100)
  seek(ends.high)
  await pause(300)
  equal(reader.records.length, 0, 'records after the end')
  await run.send(topic, [{ value: 'news' }])
  const [found] = await reader.next(1)
  equal([found.offset, text(found.value)], [100, 'news'], 'the next record')
}

async function pauseResume(run) {
  const topic = await run.topic(2)
  const toBoth = (each) =>
    run.send(topic, Array.from({ length: 2 * each }, (_, i) => ({ value: `record ${i}`, partition: i % 2 })))
  const reader = await run.member(topic, topic)
  await toBoth(1)
  await reader.next(2)
  reader.consumer.pause([{ topic, partitions: [1] }])
  await toBoth(5)
  equal((await reader.next(5)).map((one) => one.partition), [0, 0, 0, 0, 0], 'partitions while 1 is paused')
  await pause(300)
  equal(reader.records.length, 0, 'records while paused')
  reader.consumer.resume([{ topic, partitions: [1] }])
  const found = (await reader.next(5)).map((one) => [one.partition, one.offset])
  equal(found, [1, 2, 3, 4, 5].map((offset) => [1, offset]), 'what was held back')
}

async function tail(run) {
  const topic = await run.topic()
  const reader = await run.member(topic, topic)
  for (const number of ['0', '1', '2']) {
    await run.send(topic, [{ value: number }])
    equal(text((await reader.next(1))[0].value), number, 'the news')
  }
}

async function reset(run) {
  const topic = await run.topic()
  await run.send(topic, numbered(10))
  const reader = await run.member(topic, topic)
  await reader.next(10)
  reader.consumer.seek({ topic, partition: 0, offset: '1000' })
  checkNumbered(await reader.next(10), 10)
}

async function watermarks(run) {
  const topic = await run.topic()
  const ends = async () => {
    const [found] = await run.admin.fetchTopicOffsets(topic)
    return [found.low, found.high]
  }
  equal(await ends(), ['0', '0'], 'of the empty partition')
  await run.send(topic, numbered(7))
  equal(await ends(), ['0', '7'], 'of the filled partition')
}

async function compacted(run) {
  const topic = await run.topic(1, {
    'cleanup.policy': 'compact',
    'segment.ms': '50',
    'min.cleanable.dirty.ratio': '0.001',
    'delete.retention.ms': '0',
  })
  await refused('INVALID_RECORD', () => run.send(topic, [{ value: 'no key' }]))
  const producer = await run.producer()
  for (let turn = 0; turn < 20; turn += 1) {
    const messages = Array.from({ length: 10 }, (_, key) => ({ key: `k${key}`, value: `${turn}` }))
    await producer.send({ topic, messages })
  }
  await producer.send({ topic, messages: [{ key: 'k9', value: null }] })
  let rows = []
  let looks = 0
  await eventually('a cleaned log', async () => {
    // A record rolls the segment before it, which the cleaner may then take.
    await producer.send({ topic, messages: [{ key: 'tick', value: '' }] })
    looks += 1
    rows = await everything(run, topic, `${topic}.${looks}`)
    return rows.length === 9
  })
  equal(rows, Array.from({ length: 9 }, (_, key) => `${190 + key} k${key} 19`), 'the last value of each key')
}

/** Offset, key and value of each record but the ticks. */
async function everything(run, topic, group) {
  const end = Number((await run.admin.fetchTopicOffsets(topic))[0].high)
  const reader = await run.member(group, topic)
  await eventually('the end', () => reader.records.at(-1)?.offset === end - 1)
  await reader.consumer.disconnect()
  const kept = reader.records.filter((one) => text(one.key) !== 'tick')
  return kept.map((one) => `${one.offset} ${text(one.key)} ${text(one.value)}`)
}

module.exports = {
  'seek-time': seekTime,
  'seek-ends': seekEnds,
  'pause-resume': pauseResume,
  tail,
  reset,
  watermarks,
  compacted,
}
