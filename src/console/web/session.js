// The user's token, in the session storage of this tab.
//
// A reload keeps it, closing the tab ends it, and no other tab has it. Local storage would show it to every page of this
// origin at any time, and pages that flows make are of this origin too; a cookie would be sent by requests of theirs.

const KEY = 'flowgate.console';

let held = restored();
let user = null;
let timer = null;
let onEnd = () => {};

function restored() {
    try {
        const kept = JSON.parse(sessionStorage.getItem(KEY));
        return kept && kept.expires > Date.now() ? kept : null;
    } catch {
        return null;
    }
}

export function token() {
    return held?.token ?? null;
}

// Keeps a token for so many seconds.
export function begin(value, seconds) {
    held = { token: value, expires: Date.now() + seconds * 1000 };
    sessionStorage.setItem(KEY, JSON.stringify(held));
    watch();
}

// Forgets the token and the user.
export function forget() {
    held = null;
    user = null;
    clearTimeout(timer);
    sessionStorage.removeItem(KEY);
}

// The gateway no longer accepts the token, or it has expired.
export function ended() {
    forget();
    onEnd();
}

export function whenEnded(action) {
    onEnd = action;
    watch();
}

function watch() {
    clearTimeout(timer);
    if (!held) return;
    // The longest time that a timer takes is 2^31 - 1 ms.
    const left = Math.min(held.expires - Date.now(), 2 ** 31 - 1);
    timer = setTimeout(() => (held && held.expires <= Date.now() ? ended() : watch()), Math.max(left, 0));
}

// The user with the permissions that hold here.
export function identify(name, permissions) {
    user = { name, permissions };
}

// Whether it is a user of the gateway itself, not of a provider or an issuer.
export function isLocal() {
    return Boolean(user?.name) && !/^(oidc|jwt|token):/.test(user.name);
}

let ways = {};

// The ways to sign in beside a password: `providers`, `passkeys`.
export function offers() {
    return ways;
}

export function offer(those) {
    ways = those;
}

export function current() {
    return user;
}

// The permission that covers another, as the gateway decides it: `*`, `read` and `write` cover others. `had`: those of another
// user than this one.
export function covering(permission, had = user?.permissions ?? []) {
    const all = permission.endsWith('.read') ? 'read' : permission.endsWith('.write') ? 'write' : null;
    return had.find((one) => one === permission) ?? had.find((one) => one === '*' || (all && (one === all || one === `*.${all}`)))
        ?? had.find((one) => one.startsWith(`${permission}:`)) ?? null;
}

// Whether the user has a permission, for all flows.
export function may(permission) {
    const had = covering(permission);
    return had !== null && !had.startsWith(`${permission}:`);
}

// The same, or for some flows only (`flows.write:FLOW`).
export function maySome(permission) {
    return covering(permission) !== null;
}
