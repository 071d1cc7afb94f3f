// Makes the client from the description of the API, with schemas that check each answer when it comes.
export default {
  input: './openapi.json',
  output: { path: 'generated', importFileExtension: '.js' },
  logs: { level: 'error' },
  plugins: [
    '@hey-api/client-fetch',
    '@hey-api/typescript',
    { name: '@hey-api/sdk', validator: { request: true, response: true } },
    { name: 'zod', dates: { offset: true } },
  ],
}
