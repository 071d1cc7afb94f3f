// Holds every answer against the description of the API, and keeps count of which operations have been called.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import addFormats from 'ajv-formats'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { client } from './generated/client.gen.js'

export interface Operation {
  id: string
  method: string
  path: string
  scope: string
  parameters: { name: string; in: string; required?: boolean }[]
  body?: { required?: boolean }
}

interface Answer {
  content?: Record<string, unknown>
  $ref?: string
}

const text = readFileSync('openapi.json', 'utf8')
const description = JSON.parse(text) as { paths: Record<string, Record<string, Record<string, unknown>>>; components: { schemas: Record<string, object> } }

// An answer has what is described and nothing else. For other readers the schemas are open, so that members can be added.
const closed = JSON.parse(text) as typeof description
for (const schema of Object.values(closed.components.schemas) as { properties?: object; additionalProperties?: unknown }[]) {
  if (schema.properties && schema.additionalProperties === undefined) schema.additionalProperties = false
}
const ajv = new Ajv2020({ strict: false, allErrors: true, formats: { int32: true, int64: true, double: true, byte: true, binary: true } })
addFormats.default(ajv)
ajv.addSchema(closed, 'openapi.json')

export const operations: Operation[] = Object.entries(description.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, o]) => ({
    id: o.operationId as string, method: method.toUpperCase(), path, scope: o['x-oncegate-scope'] as string,
    parameters: (o.parameters ?? []) as Operation['parameters'], body: o.requestBody as Operation['body'],
  })))

const byAddress = new Map(operations.map(o => [o.method + ' ' + o.path, o]))

// succeeded counts the answers of each operation that were not problems.
export const succeeded = new Map<string, number>()

// wrong are the answers that are not as described.
export const wrong: string[] = []

const pointer = (...parts: string[]) => 'openapi.json#/' + parts.map(p => encodeURIComponent(p.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')

const compiled = new Map<string, ValidateFunction>()
function schemaAt(at: string): ValidateFunction {
  let found = compiled.get(at)
  if (!found) compiled.set(at, found = ajv.compile({ $ref: at }))
  return found
}

// check says what is wrong with an answer, or nothing.
async function check(operation: Operation, answer: Response): Promise<string | undefined> {
  const answers = description.paths[operation.path]![operation.method.toLowerCase()]!.responses as Record<string, Answer>
  const kind = (answer.headers.get('Content-Type') ?? '').split(';')[0]!.trim()
  const listed = answers[String(answer.status)]
  if (!listed && answer.status < 400) return `the status ${answer.status} is not described`
  if (!answer.headers.get('X-Request-Id')) return 'the answer has no X-Request-Id'
  const content = listed ? listed.content ?? {} : { 'application/problem+json': {} }
  if (Object.keys(content).length === 0) return (await answer.text()) === '' ? undefined : 'there is a body, and none is described'
  if (!(kind in content)) return `the content is ${kind || 'of no type'}, and described are ${Object.keys(content)}`
  if (kind === 'application/octet-stream') return
  const body: unknown = await answer.json()
  const validate = schemaAt(listed
    ? pointer('paths', operation.path, operation.method.toLowerCase(), 'responses', String(answer.status), 'content', kind, 'schema')
    : pointer('components', 'schemas', 'ProblemDocument'))
  if (!validate(body)) return ajv.errorsText(validate.errors, { dataVar: 'answer' }) + ' in ' + JSON.stringify(body).slice(0, 500)
  if (!listed && (body as { status: number }).status !== answer.status) return `the problem is of status ${(body as { status: number }).status}`
  return
}

client.interceptors.response.use(async (answer, _request, options) => {
  const operation = byAddress.get(`${options.method} ${options.url}`)
  if (!operation) {
    wrong.push(`${options.method} ${options.url} is no operation of the description`)
    return answer
  }
  const fault = await check(operation, answer.clone())
  if (fault) wrong.push(`${operation.id}: ${fault}`)
  if (answer.ok) succeeded.set(operation.id, (succeeded.get(operation.id) ?? 0) + 1)
  return answer
})

// Every decision has a key, so that the test sees what is kept of the answers.
client.interceptors.request.use(request => {
  if (request.method === 'POST' && !request.headers.has('Idempotency-Key')) request.headers.set('Idempotency-Key', randomUUID())
  return request
})
