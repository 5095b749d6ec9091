// Looks up names with Node (docs/interop.md): `node names.js lookup|resolve NAME…` prints each with its addresses. `lookup` is the
// C library's, `resolve` c-ares, which knows no search list.
'use strict';

const dns = require('node:dns').promises;

// That a name, or a family of its addresses, is not there.
const ABSENT = ['ENOTFOUND', 'ENODATA'];

const orNone = async (promise) => {
  try {
    return await promise;
  } catch (error) {
    if (ABSENT.includes(error.code)) return [];
    throw error;
  }
};

const WAYS = {
  lookup: async (name) => (await orNone(dns.lookup(name, { all: true }))).map(({ address }) => address),
  resolve: async (name) => [...(await orNone(dns.resolve4(name))), ...(await orNone(dns.resolve6(name)))],
};

(async () => {
  const [way, ...names] = process.argv.slice(2);
  for (const name of names) console.log([name, ...(await WAYS[way](name))].join(' '));
})();
