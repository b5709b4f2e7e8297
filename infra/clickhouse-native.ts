/**
 * ClickHouse's format Native: blocks of columns, each with its name and type, little-endian. Numbers
 * need no parsing and bytes no escaping, so that SQL does neither: a month of a trader's bookings costs
 * neither side a digit (ADR 10).
 * Source: https://clickhouse.com/docs/interfaces/formats/Native, without a client revision, so that
 * no column is sparse.
 */

/** Columns of equal length by name, of numbers a typed array; none where the answer had no row. */
export type Table = ReadonlyMap<string, ArrayLike<unknown>>;

/**
 * Reads a whole answer. Values are numbers up to 32 bits and doubles, bigints beyond, booleans, texts;
 * FixedString is 0x and lower-case digits, DateTime seconds since the epoch, DateTime64 a bigint of its
 * ticks, Enum its name; Array and Tuple are arrays, Nullable may be null. Throws TypeError for another type, RangeError for an
 * answer that ends too early.
 */
export function decodeNative(bytes: Buffer): Table {
  const input = new Input(bytes);
  const table = new Map<string, ArrayLike<unknown>>();
  while (!input.isAtEnd) {
    const columns = input.length();
    const rows = input.length();
    for (let column = 0; column < columns; column++) {
      const name = input.text();
      const values = decoderOf(input.text())(input, rows);
      const before = table.get(name);
      table.set(
        name,
        before === undefined ? values : [...Array.from(before), ...Array.from(values)],
      );
    }
  }
  return table;
}

/** The bytes of an answer from the first to the last. */
class Input {
  readonly view: DataView;
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  /** Where the next bytes begin, which are passed. */
  take(bytes: number): number {
    const begin = this.#at;
    if (begin + bytes > this.#bytes.length) throw new RangeError('the answer ends too early');
    this.#at += bytes;
    return begin;
  }

  /** An unsigned LEB128. */
  length(): number {
    let length = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = this.view.getUint8(this.take(1));
      length += (byte & 127) * unit;
      if (byte < 128) return length;
    }
  }

  /** A copy of the next bytes, which begins where numbers of any size may. */
  copy(bytes: number): ArrayBuffer {
    const begin = this.#bytes.byteOffset + this.take(bytes);
    return this.#bytes.buffer.slice(begin, begin + bytes) as ArrayBuffer;
  }

  text(): string {
    const length = this.length();
    const begin = this.take(length);
    return this.#bytes.toString('utf8', begin, begin + length);
  }

  hex(length: number): string {
    const begin = this.take(length);
    return `0x${this.#bytes.toString('hex', begin, begin + length)}`;
  }
}

/** Reads so many values. */
type Decoder = (input: Input, rows: number) => ArrayLike<unknown>;

/** Numbers as they stand there: nothing is made of a value before it is looked at. */
function typed(View: new (bytes: ArrayBuffer) => ArrayLike<unknown>, size: number): Decoder {
  return (input, rows) => new View(input.copy(size * rows));
}

/** Values of so many bytes each. */
function each(size: number, value: (view: DataView, at: number) => unknown): Decoder {
  return (input, rows) => {
    const begin = input.take(size * rows);
    const values: unknown[] = [];
    for (let row = 0; row < rows; row++) values.push(value(input.view, begin + size * row));
    return values;
  };
}

/** An integer of several 64-bit words, the lowest first. */
function words(count: number, isSigned: boolean): Decoder {
  return each(8 * count, (view, at) => {
    let value = 0n;
    for (let word = count - 1; word >= 0; word--) {
      value = (value << 64n) | view.getBigUint64(at + 8 * word, true);
    }
    return isSigned ? BigInt.asIntN(64 * count, value) : value;
  });
}

const PLAIN: Readonly<Record<string, Decoder>> = {
  UInt8: typed(Uint8Array, 1),
  UInt16: typed(Uint16Array, 2),
  UInt32: typed(Uint32Array, 4),
  UInt64: typed(BigUint64Array, 8),
  UInt128: words(2, false),
  UInt256: words(4, false),
  Int8: typed(Int8Array, 1),
  Int16: typed(Int16Array, 2),
  Int32: typed(Int32Array, 4),
  Int64: typed(BigInt64Array, 8),
  Int128: words(2, true),
  Int256: words(4, true),
  Float64: typed(Float64Array, 8),
  Bool: each(1, (view, at) => view.getUint8(at) !== 0),
  String: (input, rows) => Array.from({ length: rows }, () => input.text()),
  DateTime: typed(Uint32Array, 4),
  DateTime64: typed(BigInt64Array, 8),
};

/** Decoders of the types that were met. */
const known = new Map<string, Decoder>();

function decoderOf(type: string): Decoder {
  const met = known.get(type);
  if (met !== undefined) return met;
  const decoder = made(type);
  known.set(type, decoder);
  return decoder;
}

function made(type: string): Decoder {
  const [, name = '', inner = ''] = /^(\w+)(?:\((.*)\))?$/s.exec(type) ?? [];
  const plain = PLAIN[name];
  if (plain !== undefined) return plain;
  switch (name) {
    case 'FixedString': {
      const length = Number(inner);
      return (input, rows) => Array.from({ length: rows }, () => input.hex(length));
    }
    case 'Enum8':
      return named(inner);
    case 'Array':
      return arrays(decoderOf(inner));
    case 'Tuple':
      return tuples(parts(inner).map((part) => decoderOf(part.replace(/^(`[^`]*`|\w+) +/, ''))));
    case 'Nullable':
      return nullable(decoderOf(inner));
    case 'SimpleAggregateFunction':
      return decoderOf(parts(inner)[1] ?? '');
    default:
      throw new TypeError(`columns of the type ${type} are not read`);
  }
}

/** An Enum8, of `'name' = number, …`. */
function named(inner: string): Decoder {
  const names = new Map<number, string>();
  for (const [, name = '', number] of inner.matchAll(/'([^']*)' = (-?\d+)/g)) {
    names.set(Number(number), name);
  }
  return each(1, (view, at) => names.get(view.getInt8(at)));
}

/** Which values are null comes first. */
function nullable(value: Decoder): Decoder {
  return (input, rows) => {
    const begin = input.take(rows);
    return Array.from(value(input, rows), (one, row) =>
      input.view.getUint8(begin + row) === 0 ? one : null,
    );
  };
}

/** Ends of the arrays among all elements come first. */
function arrays(element: Decoder): Decoder {
  return (input, rows) => {
    const begin = input.take(8 * rows);
    const ends = Array.from({ length: rows }, (_, row) =>
      Number(input.view.getBigUint64(begin + 8 * row, true)),
    );
    const elements = Array.from(element(input, ends.at(-1) ?? 0));
    return ends.map((end, row) => elements.slice(row === 0 ? 0 : ends[row - 1], end));
  };
}

function tuples(members: readonly Decoder[]): Decoder {
  return (input, rows) => {
    const columns = members.map((member) => member(input, rows));
    return Array.from({ length: rows }, (_, row) => columns.map((column) => column[row]));
  };
}

/** What stands between the commas that no parenthesis encloses. */
function parts(inner: string): readonly string[] {
  const found: string[] = [];
  let depth = 0;
  let begin = 0;
  for (let at = 0; at <= inner.length; at++) {
    const character = inner[at];
    if (character === '(') depth++;
    else if (character === ')') depth--;
    else if (character === undefined || (character === ',' && depth === 0)) {
      found.push(inner.slice(begin, at).trim());
      begin = at + 1;
    }
  }
  return found;
}
