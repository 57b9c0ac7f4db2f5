// A real provider of OpenID Connect for the tests. The first argument is its URL, the second the URL of the gateway.
//
// It signs each browser in at once as the user whom the tests have named, in place of a person at its own form. Lines on standard
// input change it: `user NAME`, `groups NAME GROUP…`, `logout NAME`, `factor VALUE SECONDS` (how
// users sign in from then on, `amr`, and so many seconds ago). Each is answered with `ok`.

import { createInterface } from 'node:readline';
import Provider from 'oidc-provider';

const [, , url, gateway] = process.argv;
const groups = new Map();
let user = 'ann';
let amr = ['pwd'];
let ago = 0;

const configuration = {
    clients: [{
        client_id: 'flowgate',
        client_secret: 'a secret of the tests: %&+/',
        redirect_uris: [`${gateway}/gateway/sign-in/corp/callback`],
        post_logout_redirect_uris: [`${gateway}/gateway/sign-in`, `${gateway}/`],
        backchannel_logout_uri: `${gateway}/gateway/sign-in/corp/back-channel-logout`,
        backchannel_logout_session_required: true,
        grant_types: ['authorization_code', 'refresh_token'],
    }],
    cookies: { keys: ['tests'] },
    claims: { openid: ['sub', 'amr'], groups: ['groups'] },
    scopes: ['openid', 'groups'],
    // The gateway is on this machine, which a provider refuses to reach otherwise.
    fetch: (address, { dispatcher, ...options }) => globalThis.fetch(address, options),
    findAccount: (ctx, id) => ({
        accountId: id,
        claims: () => ({ sub: id, groups: groups.get(id) ?? [] }),
    }),
    features: {
        backchannelLogout: { enabled: true },
        devInteractions: { enabled: false },
        rpInitiatedLogout: {
            enabled: true,
            // Without asking the user.
            logoutSource: (ctx, form) => {
                ctx.body = `<body>${form.replace('<form ', '<form data-logout ')}<script>
                    const form = document.querySelector('form');
                    form.append(Object.assign(document.createElement('input'), { type: 'hidden', name: 'logout', value: 'yes' }));
                    form.submit();
                </script></body>`;
            },
        },
    },
    interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
    issueRefreshToken: () => true,
    // One that is used twice ends all that came of its sign-in.
    rotateRefreshToken: true,
    pkce: { required: () => true },
    ttl: { AccessToken: 600, AuthorizationCode: 60, IdToken: 600, RefreshToken: 3600, Grant: 3600, Interaction: 600, Session: 3600 },
};

const provider = new Provider(url, configuration);
const sessions = new Map();

provider.use(async (ctx, next) => {
    if (!ctx.path.startsWith('/interaction/')) {
        return next();
    }
    const details = await provider.interactionDetails(ctx.req, ctx.res);
    const { client_id: clientId, scope } = details.params;
    const grant = new provider.Grant({ accountId: user, clientId });
    grant.addOIDCScope(scope);
    const result = { login: { accountId: user, amr, ts: Math.floor(Date.now() / 1000) - ago }, consent: { grantId: await grant.save() } };
    ctx.respond = false;
    await provider.interactionFinished(ctx.req, ctx.res, result, { mergeWithLastSubmission: false });
});

// Remembers the sessions, to end them as an administrator would.
provider.on('authorization.success', (ctx) => {
    sessions.set(ctx.oidc.session.accountId, ctx.oidc.session);
});

async function logout(name) {
    const session = sessions.get(name);
    const client = await provider.Client.find('flowgate');
    await client.backchannelLogout(name, session.sidFor('flowgate'));
}

createInterface({ input: process.stdin }).on('line', async (line) => {
    const [verb, name, ...rest] = line.split(' ');
    try {
        if (verb === 'user') user = name;
        if (verb === 'groups') groups.set(name, rest);
        if (verb === 'factor') [amr, ago] = [['pwd', name], Number(rest[0])];
        if (verb === 'logout') await logout(name);
        console.log('ok');
    } catch (error) {
        console.log(`failed: ${error.stack} ${error.cause?.stack}`.replaceAll('\n', ' '));
    }
}).on('close', () => process.exit());

const { hostname, port } = new URL(url);
provider.listen(Number(port), hostname, () => console.log('listening'));
