// kafkajs as a column of the compatibility card: every scenario in one process.
//
// Usage: node compat.js BOOTSTRAP PREFIX FEATURE... Prints one JSON line for each feature, in order.
'use strict'

const { Run } = require('./run')

const scenarios = {
  ...require('./records'),
  ...require('./reading'),
  ...require('./groups'),
  ...require('./admin'),
}

/** Empty, or what went wrong and where. */
async function attempt(bootstrap, prefix, feature) {
  if (!(feature in scenarios)) {
    return 'the program has no such scenario'
  }
  const run = new Run(bootstrap, `${prefix}.${feature}`)
  try {
    await run.open()
    await scenarios[feature](run)
    return ''
  } catch (error) {
    const place = String(error.stack).split('\n').find((line) => /(records|reading|groups|admin)\.js:/.test(line))
    return `${error}${place ? ` (${place.trim().split('/').pop()})` : ''}`
  } finally {
    await run.close()
  }
}

async function main() {
  const [bootstrap, prefix, ...features] = process.argv.slice(2)
  for (const scenario of features) {
    const detail = await attempt(bootstrap, prefix, scenario)
    console.log(JSON.stringify({ scenario, result: detail ? 'FAIL' : 'ok', detail }))
  }
  process.exit(0)
}

main()
