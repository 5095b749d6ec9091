// Makes and checks bodies of any length that are different at every place, as ../go/pattern does. Used by both programs here.
'use strict';

const BLOCK = 64 * 1024;

function block(number) {
  const bytes = Buffer.alloc(BLOCK);
  for (let i = 0; i < BLOCK; i++) bytes[i] = (i * 7 + (i >> 8)) | 1;
  bytes.writeBigUInt64BE(BigInt(number));
  return bytes;
}

// Pieces of the first `length` bytes.
function* make(length) {
  const bytes = block(0);
  for (let at = 0; at < length; at += BLOCK) {
    bytes.writeBigUInt64BE(BigInt(at / BLOCK));
    yield Buffer.from(bytes.subarray(0, Math.min(BLOCK, length - at)));
  }
}

// The length of what `pieces` gives; an error where it is not the pattern.
async function check(pieces) {
  const want = block(0);
  let total = 0;
  for await (const piece of pieces) {
    for (let from = 0; from < piece.length; ) {
      const inside = total % BLOCK;
      if (inside === 0) want.writeBigUInt64BE(BigInt(total / BLOCK));
      const part = piece.subarray(from, from + BLOCK - inside);
      if (part.compare(want, inside, inside + part.length) !== 0) {
        throw new Error(`wrong bytes after byte ${total}`);
      }
      from += part.length;
      total += part.length;
    }
  }
  return total;
}

module.exports = { make, check };
