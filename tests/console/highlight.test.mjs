// The tokens of code: which parts of a line have a colour, and what a line leaves open for the next.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tokens } from '../../src/console/web/highlight.js';

// The tokens that have a kind, as `kind:text`.
const coloured = (line, open) => tokens(line, open)[0].filter(([kind]) => kind).map(([kind, text]) => `${kind}:${text}`);
const left = (line, open) => tokens(line, open)[1];

test('keywords, strings, numbers and comments have kinds, names have none', () => {
    assert.deepEqual(coloured("const a1 = 'x' + 0x1f; // done"), ['keyword:const', "string:'x'", 'number:0x1f', 'comment:// done']);
    assert.deepEqual(coloured('returned = newest.if_'), []);
    assert.deepEqual(coloured('return 1_000.5e-3 + 10n'), ['keyword:return', 'number:1_000.5e-3', 'number:10n']);
    assert.deepEqual(coloured('{"on": true, "n": null}'), ['string:"on"', 'keyword:true', 'string:"n"', 'keyword:null']);
    assert.deepEqual(coloured('größe2 = 3'), ['number:3']);
});

test('all of a line is in its tokens, whatever it contains', () => {
    const lines = ['', '  \t', "'", '"\\', '`', '/*', '*/', '//', '/* a */ b /* c', '`${a}` + `', "'it\\'s' x", '\u{1F600} if', 'a\\`b`', '/**/', '/*/', '``'];
    for (const line of lines) {
        for (const open of ['', 'comment', 'template']) {
            assert.equal(tokens(line, open)[0].map(([, text]) => text).join(''), line, `${line} after ${open}`);
        }
    }
});

test('a comment and a template go on in the next lines, until they end', () => {
    assert.equal(left('a /* b'), 'comment');
    assert.equal(left('more', 'comment'), 'comment');
    assert.deepEqual(coloured('end */ if', 'comment'), ['comment:end */', 'keyword:if']);
    assert.equal(left('end */ if', 'comment'), '');
    assert.equal(left('a = `b'), 'template');
    assert.equal(left('still \\` open', 'template'), 'template');
    assert.deepEqual(coloured('c` + 1', 'template'), ['string:c`', 'number:1']);
    assert.equal(left('`a` `b'), 'template');
    for (const closed of ['/* a */', '/**/', '`a`', '``', '`a\\\\`', "'open", '"open', '// /*', "'/*'"]) assert.equal(left(closed), '', closed);
    for (const [open, kind] of [['/*/', 'comment'], ['/*', 'comment'], ['`a\\`', 'template'], ['`', 'template']]) assert.equal(left(open), kind, open);
});

test('an escaped quote does not end a string, and a string ends with its line', () => {
    assert.deepEqual(coloured("'it\\'s' if"), ["string:'it\\'s'", 'keyword:if']);
    assert.deepEqual(coloured('"a if'), ['string:"a if']);
});

test('a long line has no colours, and costs no time', () => {
    const long = `'${'\\'.repeat(5000)}`;
    assert.deepEqual(tokens(long), [[['', long]], '']);
    const most = `${'`\\'.repeat(1000)}`;
    assert.equal(tokens(most)[0].map(([, text]) => text).join(''), most);
});
