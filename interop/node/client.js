// An HTTP client that goes through what the servers of these checks answer (docs/interop.md): `node client.js KIND URL`.
// Kinds: 1 (HTTP/1.1), 2 (HTTP/2 by prior knowledge), ws (WebSocket), odd (its handshake in odd case), connect (WebSocket
// through HTTP/2's extended CONNECT). It fails with the first difference.
'use strict';

const assert = require('node:assert');
const { randomBytes } = require('node:crypto');
const { once } = require('node:events');
const http = require('node:http');
const http2 = require('node:http2');
const net = require('node:net');
const { Readable } = require('node:stream');
const { WebSocket, Receiver, Sender } = require('ws');
const pattern = require('./pattern');

// Both give {status, body, trailers} for a request; `pieces` is what its body is made of, with `length` bytes or unknown.
function over1(url) {
  const agent = new http.Agent({ keepAlive: true });
  const call = async (method, path, pieces = [], length = undefined) => {
    const headers = length === undefined ? {} : { 'content-length': length };
    const request = http.request(url + path, { method, headers, agent });
    Readable.from(pieces).pipe(request);
    const [answer] = await once(request, 'response');
    return { status: answer.statusCode, body: await collect(answer), trailers: answer.trailers };
  };
  return { call, close: () => agent.destroy() };
}

function over2(url) {
  const session = http2.connect(url);
  const call = async (method, path, pieces = [], length = undefined) => {
    const headers = { ':method': method, ':path': path };
    if (length !== undefined) headers['content-length'] = length;
    const stream = session.request(headers, { endStream: false });
    let trailers = {};
    stream.on('trailers', (fields) => (trailers = fields));
    Readable.from(pieces).pipe(stream);
    const [head] = await once(stream, 'response');
    return { status: head[':status'], body: await collect(stream), trailers };
  };
  return { call, close: () => session.close() };
}

async function collect(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces);
}

async function exchanges({ call, close }) {
  const text = async (method, path, code = 200) => {
    const answer = await call(method, path);
    assert.equal(answer.status, code, path);
    return answer.body.toString();
  };
  assert.equal(await text('GET', '/a/path?with=a&query=%20%2F'), 'hello\n');
  assert.equal(await text('HEAD', '/bytes/5'), '');
  assert.equal(await text('GET', '/status/204', 204), '');
  await text('GET', '/status/418', 418);
  assert.equal(await text('GET', '/chunks'), 'one\ntwo\nthree\n');
  for (const length of [0, 1, 16383, 65536, 70001, 3 << 20]) {
    const body = randomBytes(length);
    assert.ok((await call('POST', '/echo', [body], length)).body.equals(body), `echo of ${length}`);
  }
  const pieces = Array.from({ length: 50 }, (_, i) => `${i}`.repeat(300));
  assert.equal((await call('PUT', '/echo', pieces)).body.toString(), pieces.join(''));
  const down = (await call('GET', '/bytes/5000001')).body;
  assert.equal(await pattern.check([down]), 5000001);
  const up = await call('POST', '/sink', pattern.make(5000001), 5000001);
  assert.equal(up.body.toString(), '5000001\n');
  const many = Array.from({ length: 40 }, (_, i) => Buffer.from(`${i} `.repeat(5000)));
  const answers = await Promise.all(many.map((body) => call('POST', '/echo', [body], body.length)));
  answers.forEach((answer, i) => assert.ok(answer.body.equals(many[i]), `one of many: ${i}`));
  const trailers = await call('GET', '/trailers');
  if (trailers.status !== 501) assert.equal(trailers.trailers['x-end'], 'reached');
  close();
}

async function echoes(socket) {
  for (const body of ['', 'text', randomBytes(126), randomBytes(70000), randomBytes(1 << 20)]) {
    socket.send(body);
    const [got, isBinary] = await once(socket, 'message');
    assert.equal(isBinary, typeof body !== 'string');
    assert.ok(Buffer.from(got).equals(Buffer.from(body)), `message of ${body.length}`);
  }
  socket.ping('are you there');
  const [pong] = await once(socket, 'pong');
  assert.equal(pong.toString(), 'are you there');
  socket.close(1000, 'done');
  const [code] = await once(socket, 'close');
  assert.equal(code, 1000);
}

async function websocket(url) {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/ws`);
  await once(socket, 'open');
  await echoes(socket);
}

// A handshake as no library writes it: any case is right, and `Connection` is a list.
async function odd(url) {
  const { hostname, port, host } = new URL(url);
  const socket = net.connect(port, hostname);
  socket.write(`GET /ws HTTP/1.1\r\nhOST: ${host}\r\nupgrade: WebSocket\r\nconnection: keep-alive, Upgrade\r\n` +
    'sec-webSocket-version: 13\r\nSEC-WEBSOCKET-KEY: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n');
  let head = Buffer.alloc(0);
  while (!head.includes('\r\n\r\n')) head = Buffer.concat([head, (await once(socket, 'data'))[0]]);
  assert.match(head.toString(), /^HTTP\/1\.1 101 /);
  assert.match(head.toString(), /\r\nupgrade: websocket\r\n/i);
  assert.match(head.toString(), /\r\nconnection: upgrade\r\n/i);
  assert.match(head.toString(), /sec-websocket-accept: ICX\+Yqv66kxgM0FcWaLWlFLwTAI=/i);
  await frames(socket, head.subarray(head.indexOf('\r\n\r\n') + 4));
  socket.destroy();
}

async function connect(url) {
  const session = http2.connect(url);
  await once(session, 'remoteSettings');
  assert.ok(session.remoteSettings.enableConnectProtocol, 'extended CONNECT is not offered');
  const stream = session.request(
    { ':method': 'CONNECT', ':protocol': 'websocket', ':path': '/ws', 'sec-websocket-version': '13' },
    { endStream: false },
  );
  const [head] = await once(stream, 'response');
  assert.equal(head[':status'], 200);
  await frames(stream, Buffer.alloc(0));
  stream.end();
  session.close();
}

// Messages over a stream that is past its handshake, with the package's own reader and writer of frames.
async function frames(stream, first) {
  const receiver = new Receiver({ isServer: false });
  const sender = new Sender(stream);
  if (first.length > 0) receiver.write(first);
  stream.on('data', (data) => receiver.write(data));
  for (const body of [Buffer.from('text'), randomBytes(70000), randomBytes(1 << 20)]) {
    sender.send(body, { fin: true, binary: true, mask: true, compress: false });
    const [got] = await once(receiver, 'message');
    assert.ok(got.equals(body), `message of ${body.length}`);
  }
  sender.close(1000, undefined, true);
  const [code] = await once(receiver, 'conclude');
  assert.equal(code, 1000);
}

const KINDS = {
  1: (url) => exchanges(over1(url)),
  2: (url) => exchanges(over2(url)),
  ws: websocket,
  odd,
  connect,
};

KINDS[process.argv[2]](process.argv[3]).then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
