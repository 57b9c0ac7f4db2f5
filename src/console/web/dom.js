// Makes elements. A text is always a text node or an attribute: nothing here makes HTML of it.

const SVG = 'http://www.w3.org/2000/svg';

// An element: `h('a', { href: '#/x', onclick: f }, 'text', [more])`. Attributes that are null or false are left out.
export function h(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
}

// The same of SVG.
export function svg(tag, attributes, ...children) {
    return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
        if (value === null || value === undefined || value === false) continue;
        if (typeof value === 'function') element.addEventListener(name.slice(2), value);
        else element.setAttribute(name, value === true ? '' : String(value));
    }
    add(element, children);
    return element;
}

function add(element, children) {
    for (const child of children) {
        if (Array.isArray(child)) add(element, child);
        else if (child instanceof Node) element.append(child);
        else if (child !== null && child !== undefined && child !== false) element.append(...visible(String(child), element));
    }
}

// Characters without a glyph, such as those that turn the direction of text, but for the ends of lines and the
// selectors that make an emoji of its symbol.
const INVISIBLE = /(?![\t\n]|\r\n|\r$|(?<=\p{Extended_Pictographic})\ufe0f)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}\p{Cn}\u2800\u{16fe4}]/gu;

// A text as what is to be put into an element: each invisible character as `\u{…}`, marked where marks can be.
function visible(text, element) {
    const code = (character) => `\\u{${character.codePointAt(0).toString(16).toUpperCase()}}`;
    if (!(element instanceof HTMLElement) || ['OPTION', 'TEXTAREA'].includes(element.tagName)) return [text.replace(INVISIBLE, code)];
    const pieces = [];
    let end = 0;
    for (const found of text.matchAll(INVISIBLE)) {
        const mark = document.createElement('mark');
        mark.className = 'invisible';
        mark.textContent = code(found[0]);
        pieces.push(text.slice(end, found.index), mark);
        end = found.index + found[0].length;
    }
    pieces.push(text.slice(end));
    return pieces;
}

// Puts these in the place of all that is in an element.
export function put(element, ...children) {
    element.replaceChildren();
    add(element, children);
    return element;
}

// A sentence for all, also read out.
export function toast(text) {
    let place = document.querySelector('.toasts');
    if (!place) {
        place = h('div', { class: 'toasts', role: 'status' });
        document.body.append(place);
    }
    const shown = h('div', { class: 'toast' }, text);
    place.append(shown);
    setTimeout(() => shown.remove(), 8000);
}
