// An HTTP server that answers what every server of these checks answers (docs/interop.md): `node server.js 1` over HTTP/1.1,
// with WebSockets at /ws, `node server.js 2` over HTTP/2 by prior knowledge. It prints its address as JSON when it is ready.
'use strict';

const { once } = require('node:events');
const http = require('node:http');
const http2 = require('node:http2');
const { Readable } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const { WebSocketServer } = require('ws');
const pattern = require('./pattern');

async function answer(request, response) {
  const [, first, second] = request.url.split('?')[0].split('/');
  switch (first) {
    case 'echo':
      if (request.headers['content-length']) {
        response.setHeader('content-length', request.headers['content-length']);
      }
      return pipeline(request, response);
    case 'bytes':
      response.setHeader('content-length', second);
      if (request.method === 'HEAD') return response.end();
      return pipeline(Readable.from(pattern.make(Number(second))), response);
    case 'sink':
      return response.end(`${await pattern.check(request)}\n`);
    case 'chunks':
      for (const word of ['one', 'two', 'three']) response.write(`${word}\n`);
      return response.end();
    case 'status':
      response.statusCode = Number(second);
      return response.end();
    case 'trailers':
      return trailers(request, response);
    case 'cookies':
      return response.end((request.headers.cookie ?? '').split('; ').map((cookie) => `${cookie}\n`).join(''));
    default:
      return response.end('hello\n');
  }
}

function trailers(request, response) {
  request.resume();
  if (request.httpVersionMajor === 1) response.setHeader('trailer', 'x-end');
  response.write('body\n');
  response.addTrailers({ 'x-end': 'reached' });
  return response.end();
}

function serve(request, response) {
  answer(request, response).catch((error) => {
    console.error(request.method, request.url, error.message);
    response.destroy();
  });
}

function websockets(server) {
  const sockets = new WebSocketServer({ server, path: '/ws' });
  sockets.on('connection', (socket) => {
    socket.on('error', () => {});
    socket.on('message', (data, binary) => socket.send(data, { binary }));
  });
}

async function main() {
  const is1 = process.argv[2] === '1';
  const server = is1 ? http.createServer(serve) : http2.createServer(serve);
  if (is1) websockets(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  console.log(JSON.stringify({ address: `127.0.0.1:${server.address().port}` }));
}

main();
