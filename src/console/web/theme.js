// Light or dark: as the system has it, unless the user has chosen.

const KEY = 'flowgate.theme';
const system = matchMedia('(prefers-color-scheme: dark)');

export const THEMES = ['system', 'light', 'dark'];

const changed = new Set();

export function current() {
    const kept = localStorage.getItem(KEY);
    return THEMES.includes(kept) ? kept : 'system';
}

export function choose(name) {
    localStorage.setItem(KEY, name);
    use();
}

// Applies the theme; drawings, which read its colours, are drawn again.
export function use() {
    const dark = current() === 'dark' || (current() === 'system' && system.matches);
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
    for (const action of changed) action();
}

// Calls `action` after each change, until the function that it returns is called.
export function onChange(action) {
    changed.add(action);
    return () => changed.delete(action);
}

system.addEventListener('change', use);
