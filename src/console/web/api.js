// Requests to the gateway's API, as the user who has signed in.
//
// All paths are relative to the page's, so that the console works below a path and behind a proxy that removes a part of it.

import * as session from './session.js';
import { t } from './text.js';

// The admin root: the page is at `gateway/` below it.
const ROOT = new URL('../', location.origin + location.pathname);

// How long a request may take. Our choice: longer than the gateway waits for an upstream.
const TIMEOUT = 60_000;

export class ApiError extends Error {
    constructor(status, code, message) {
        super(message);
        this.status = status;
        this.code = code;
    }
}

export function url(path, query) {
    const found = new URL(path, ROOT);
    for (const [name, value] of Object.entries(query ?? {})) {
        if (value !== null && value !== undefined && value !== '') found.searchParams.set(name, value);
    }
    return found;
}

// Codes of refusals that a fresh password or second factor lifts.
const STEP_UP = ['second_factor_required', 'confirmation_required'];

let onStepUp = async () => false;

// `action` asks the user for what a refusal needs, and resolves to whether it was given.
export function whenStepUpNeeded(action) {
    onStepUp = action;
}

// Sends a request; the response, if it is a success. `cookies`: with those of this origin.
export async function send(method, path, options = {}) {
    try {
        return await once(method, path, options);
    } catch (error) {
        if (!STEP_UP.includes(error.code) || !await onStepUp(error)) throw error;
        return once(method, path, options);
    }
}

// What a refused sign-in says to the user.
export function reason(problem) {
    if (problem.status === 429) return t('sign_in.throttled', { n: problem.wait ?? 60 });
    if (problem.code === 'invalid_grant') return t('sign_in.refused');
    return problem.message;
}

async function once(method, path, { query, body, headers, form, cookies, timeout = TIMEOUT }) {
    const fields = new Headers(headers);
    const token = session.token();
    if (token && !form) fields.set('Authorization', `Bearer ${token}`);
    if (body !== undefined) fields.set('Content-Type', 'application/json');
    let response;
    try {
        response = await fetch(url(path, query), {
            method,
            headers: fields,
            body: form ?? (body === undefined ? undefined : JSON.stringify(body)),
            cache: 'no-store',
            credentials: cookies ? 'same-origin' : 'omit',
            redirect: 'error',
            signal: AbortSignal.timeout(timeout),
        });
    } catch (error) {
        throw new ApiError(0, 'unreachable', t(error.name === 'TimeoutError' ? 'error.timeout' : 'error.unreachable'));
    }
    if (response.ok) return response;
    throw await refused(response, Boolean(form));
}

async function refused(response, signingIn) {
    const challenge = response.headers.get('WWW-Authenticate') ?? '';
    if (response.status === 401 && !signingIn) {
        if (challenge.includes('insufficient_scope')) return new ApiError(401, 'scope', t('error.scope'));
        session.ended();
        return new ApiError(401, 'session', t('sign_in.ended'));
    }
    const said = await response.json().catch(() => ({}));
    const code = said.code ?? said.error ?? 'unknown';
    const message = said.message ?? said.error_description ?? t('error.status', { status: response.status });
    const error = new ApiError(response.status, code, message);
    error.wait = Number(response.headers.get('Retry-After')) || null;
    return error;
}

export async function read(path, query) {
    return (await send('GET', path, { query })).json();
}

// The active flow set with its revision.
export async function flows() {
    const response = await send('GET', 'flows', { headers: { 'Node-RED-API-Version': 'v2' } });
    return response.json();
}

// The type of every deployment of the console: other flows go on.
export const CHANGED_FLOWS = { 'Node-RED-Deployment-Type': 'flows' };

// What a deployment of these flows would do; changes nothing.
export async function check(flowSet, rev) {
    const headers = { 'Node-RED-API-Version': 'v2', ...CHANGED_FLOWS };
    return (await send('POST', 'gateway/check', { headers, body: { flows: flowSet, rev } })).json();
}

// A header's value for a message of a user.
export function message(text) {
    return text ? { 'Flowgate-Message': encodeURIComponent(text) } : {};
}

// An entry of the history with its flow set.
export async function flowSet(rev) {
    const entry = await read(`gateway/deployments/${encodeURIComponent(rev)}`, { flows: 'true' });
    return entry.flows;
}
