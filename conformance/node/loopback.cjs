// Keeps every server of a Node process on the loopback interface. The conformance suite's mock servers
// listen on all interfaces, and a test has no business being reachable from outside.
'use strict';
const net = require('node:net');

const HOST = '127.0.0.1';
const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (...given) {
  const [first, second] = given;
  if (first === undefined || typeof first === 'function') {
    return listen.call(this, 0, HOST, ...given.filter((argument) => argument !== undefined));
  }
  if (typeof first === 'number' || /^\d+$/.test(String(first))) {
    const rest = typeof second === 'string' ? given.slice(2) : given.slice(1);
    return listen.call(this, Number(first), HOST, ...rest.filter((argument) => argument !== undefined));
  }
  if (typeof first === 'object' && first !== null && first.port !== undefined) {
    return listen.call(this, { ...first, host: HOST }, ...given.slice(1));
  }
  return listen.apply(this, given);
};
