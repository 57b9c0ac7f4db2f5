// Writes the tables of single-byte encodings that the engine has, crates/formats/src/encoding/single_byte.txt: it asks
// iconv-lite, with which Node-RED's file nodes read and write, for the names and the characters of each.
// A line: names, a tab, and the characters of all bytes, or of those from 0x80 where the others are ASCII, as JSON.

import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const iconv = createRequire(import.meta.url)('iconv-lite');
iconv.encodingExists('ascii'); // Loads the list.
const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
const ascii = bytes.toString('latin1').slice(0, 128);
const tables = new Map();
for (const name of Object.keys(iconv.encodings).filter((name) => !name.startsWith('_'))) {
    if (iconv.getCodec(name).constructor.name === 'SBCSCodec') {
        const characters = iconv.decode(bytes, name, { stripBOM: false });
        tables.set(characters, [...(tables.get(characters) ?? []), name]);
    }
}
const line = ([characters, names]) =>
    `${names.join(' ')}\t${JSON.stringify(characters.startsWith(ascii) ? characters.slice(128) : characters)}\n`;
writeFileSync(new URL('../../crates/formats/src/encoding/single_byte.txt', import.meta.url), [...tables].map(line).join(''));
