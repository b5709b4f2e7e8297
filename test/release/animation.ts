/** Combines pictures of a page into an animated PNG (APNG: PNG specification, third edition, 11.3.6). */
import { crc32 } from 'node:zlib';

const SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex');

/** PNGs of equal size as a loop that shows each for this many milliseconds. */
export function animated(frames: readonly Buffer[], frameMs: number): Buffer {
  const [first, ...others] = frames.map(chunksOf);
  const header = first?.find(({ type }) => type === 'IHDR');
  if (first === undefined || header === undefined) throw new Error('no frames');
  let sequence = 0;
  const numbered = (type: string, data: Buffer) =>
    chunk(type, Buffer.concat([word(sequence++), data]));
  // Width and height as in the header, no offset, replaces what was there.
  const control = () =>
    numbered(
      'fcTL',
      Buffer.concat([
        header.data.subarray(0, 8),
        word(0),
        word(0),
        halves(frameMs, 1_000),
        Buffer.alloc(2),
      ]),
    );
  const pixels = (chunks: typeof first) =>
    chunks.filter(({ type }) => type === 'IDAT').map(({ data }) => data);
  return Buffer.concat([
    ...[
      SIGNATURE,
      chunk('IHDR', header.data),
      chunk('acTL', Buffer.concat([word(frames.length), word(0)])),
    ],
    ...[control(), ...pixels(first).map((data) => chunk('IDAT', data))],
    ...others.flatMap((one) => [control(), ...pixels(one).map((data) => numbered('fdAT', data))]),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function chunksOf(png: Buffer): { type: string; data: Buffer }[] {
  const chunks = [];
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at);
    chunks.push({
      type: png.toString('latin1', at + 4, at + 8),
      data: png.subarray(at + 8, at + 8 + length),
    });
    at += length + 12;
  }
  return chunks;
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  return Buffer.concat([word(data.length), body, word(crc32(body))]);
}

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function halves(...values: readonly number[]): Buffer {
  return Buffer.concat(values.map((value) => word(value).subarray(2)));
}
