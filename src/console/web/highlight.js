// Colours of code: JavaScript, JSON and what is like them, token by token. A line is coloured by itself, after what the lines
// before it have left open.

import { h } from './dom.js';

const KEYWORDS = new Set(('async await break case catch class const continue default delete do else export extends false finally for from function if import in '
    + 'instanceof let new null of return static super switch this throw true try typeof undefined var void while yield').split(' '));

// What a line may leave open, and how it ends.
const ENDS = { comment: /\*\//g, template: /(?:[^\\`]|\\.)*?`/sy };

const TOKEN = /(?<comment>\/\/.*|\/\*[\s\S]*?(?:\*\/|$))|(?<string>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`(?:[^`\\]|\\.)*(?:`|$))|(?<number>\b(?:0[xob][\da-f_]+|\d[\d_]*(?:\.[\d_]+)?(?:e[+-]?\d+)?)n?\b)|(?<word>[\p{L}_$][\p{L}\p{N}_$]*)/giu;

// Characters of a line that are coloured. Our choice: longer ones are data, and regular expressions over them take long.
const MAX_LENGTH = 2000;

// The tokens of a line, `[kind, text]`, and what it leaves open.
export function tokens(line, open = '') {
    if (line.length > MAX_LENGTH) return [[['', line]], ''];
    const found = [];
    let at = 0;
    const take = (kind, end) => {
        if (end > at) found.push([kind, line.slice(at, end)]);
        at = end;
    };
    if (open) {
        const end = ENDS[open];
        end.lastIndex = 0;
        const kind = open === 'comment' ? 'comment' : 'string';
        if (!end.exec(line)) return [[[kind, line]], open];
        take(kind, end.lastIndex);
    }
    TOKEN.lastIndex = at;
    for (let match = TOKEN.exec(line); match; match = TOKEN.exec(line)) {
        const { comment, string, number, word } = match.groups;
        take('', match.index);
        take(comment ? 'comment' : string ? 'string' : number || !KEYWORDS.has(word) ? (number ? 'number' : '') : 'keyword', TOKEN.lastIndex);
        if (comment?.startsWith('/*') && !(comment.length > 3 && comment.endsWith('*/'))) return [found, 'comment'];
        if (string?.startsWith('`') && !(string.length > 1 && /(?:^|[^\\])(?:\\\\)*`$/.test(string.slice(1)))) return [found, 'template'];
    }
    take('', line.length);
    return [found, ''];
}

// The lines of a text as elements, each a list of texts and spans.
export function highlighted(lines) {
    let open = '';
    return lines.map((line) => {
        const [found, after] = tokens(line, open);
        open = after;
        return found.map(([kind, text]) => (kind ? h('span', { class: `code-${kind}` }, text) : text));
    });
}
