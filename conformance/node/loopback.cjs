// Keeps every server of a Node process on the loopback interface. The conformance suite's mock servers
// listen on all interfaces, and a test has no business being reachable from outside.
//
// The change is made where the socket is bound rather than in `listen`: naming a host there makes Node
// look it up first, and the suite reads the port right after `listen` returns.
'use strict';
const { Server } = require('node:net');

const bind = Server.prototype._listen2;
if (typeof bind !== 'function') {
  throw new Error('this Node binds its servers in another way; loopback.cjs has to learn it');
}

Server.prototype._listen2 = function (address, port, addressType, ...rest) {
  const network = typeof port === 'number' && port >= 0;
  return network ? bind.call(this, '127.0.0.1', port, 4, ...rest) : bind.call(this, address, port, addressType, ...rest);
};
