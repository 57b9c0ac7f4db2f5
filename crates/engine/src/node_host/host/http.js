// What packages serve over HTTP: one server for endpoints (`RED.httpNode`) and upgrades (`RED.server`), one for routes
// of the admin API (`RED.httpAdmin`). Both are on Unix sockets that only the gateway reaches, which has authorized every
// request before it sends it here, and names the client and its permissions in headers that clients cannot set.
"use strict";
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const { send } = require("channel.js");

// On the 404 for which no package has a handler: the gateway answers it itself.
const UNHANDLED = "x-flowgate-unhandled";
// On the 401 of `needsPermission`: the permission that the caller lacks.
const NEEDS = "x-flowgate-needs";
// The largest body of a request to a route of the admin API: the default of Node-RED's `apiMaxLength`.
const LIMIT = "5mb";
// Marks what `needsPermission` returns.
const ASKS = Symbol("asks");

// Tells packages who asks, as if the client had connected to them: one connection of the gateway brings requests of
// many clients, one after the other.
function introduce({ headers, socket }) {
    const properties = {
        remoteAddress: headers["x-forwarded-for"],
        remoteFamily: headers["x-forwarded-for"]?.includes(":") ? "IPv6" : "IPv4",
        encrypted: headers["x-forwarded-proto"] === "https",
    };
    for (const [name, value] of Object.entries(properties)) {
        Object.defineProperty(socket, name, { value, configurable: true });
    }
}

// The caller as `req.user`; undefined: it is anonymous.
function user({ headers }) {
    const username = headers["x-flowgate-user"];
    return username ? { username: decodeURIComponent(username), permissions: permissions(headers) } : undefined;
}

function permissions(headers) {
    return (headers["x-flowgate-permissions"] ?? "").split(" ").filter(Boolean).map(decodeURIComponent);
}

// Node-RED's rule (docs/reference/node-red-admin-api.md §1.4).
function covers(granted, needed) {
    if (Array.isArray(needed)) return needed.every((one) => covers(granted, one));
    const isOf = (kind) => needed === kind || needed.endsWith(`.${kind}`);
    return (
        needed === "" ||
        granted.some(
            (one) =>
                one === "*" ||
                one === needed ||
                ((one === "read" || one === "*.read") && isOf("read")) ||
                ((one === "write" || one === "*.write") && isOf("write")),
        )
    );
}

// `RED.auth.needsPermission`.
function needsPermission(permission) {
    const check = (request, response, next) => {
        if (covers(permissions(request.headers), permission)) return next();
        response.status(401).set(NEEDS, String(permission)).end();
    };
    return Object.assign(check, { [ASKS]: true });
}

// A server that introduces the client of each request before any handler sees it, also one that a package puts in
// front of the others, as socket.io does.
function server() {
    const made = http.createServer();
    const { emit } = made;
    made.emit = function (event, request, ...rest) {
        if (request instanceof http.IncomingMessage) {
            introduce(request);
            request.user = user(request);
        }
        return emit.call(this, event, request, ...rest);
    };
    return made;
}

// The routes that packages have added to the admin API, by their JSON, and whether the engine knows all of them. The
// first report is made when all packages are loaded.
const routes = new Set();
let isReported = false;

function report() {
    if (isReported) return;
    isReported = true;
    send({ t: "routes", routes: [...routes].map((route) => JSON.parse(route)) });
}

function add(method, path, below, handlers) {
    const isRegex = path instanceof RegExp;
    if (!isRegex && typeof path !== "string") return;
    const asks = handlers.flat(Infinity).some((handler) => handler?.[ASKS] === true);
    routes.add(JSON.stringify({ method, path: isRegex ? path.source : path, is_regex: isRegex, below, asks }));
    if (isReported) setImmediate(report);
    isReported = false;
}

// Reports the routes that are added to an Express app from here on. Middleware for all paths is no route.
function watchRoutes(app) {
    let isInside = false;
    for (const name of ["get", "post", "put", "delete", "patch", "all", "use", "route"]) {
        const original = app[name];
        app[name] = function (path, ...handlers) {
            // `app.get(name)` reads a setting.
            const isRoute = name === "route" || handlers.length > 0;
            if (isRoute && !isInside) {
                const method = ["all", "use", "route"].includes(name) ? "" : name.toUpperCase();
                for (const one of [path].flat(Infinity)) add(method, one, name === "use", handlers);
            }
            const wasInside = isInside;
            isInside = true;
            try {
                return original.call(this, path, ...handlers);
            } finally {
                isInside = wasInside;
            }
        };
    }
}

function unhandled(request, response) {
    response.status(404).set(UNHANDLED, "1").end();
}

// Express would show the error's stack to the client.
function failed(error, request, response, next) {
    console.error(`${request.method} ${request.path}: ${error?.stack ?? error}`);
    if (response.headersSent) return next(error);
    const status = error?.status >= 400 && error.status < 600 ? error.status : 500;
    response.status(status).type("text/plain").send(http.STATUS_CODES[status] ?? "error");
}

function app(express, handlers) {
    const made = express();
    made.disable("x-powered-by");
    for (const handler of handlers) made.use(...handler);
    made.use(unhandled);
    made.use(failed);
    return made;
}

function listen(server, file, mode) {
    return new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen({ path: file }, () => {
            fs.chmodSync(file, mode);
            resolve();
        });
    });
}

// Attaches the apps of a runtime, `{httpNode, httpAdmin}`, to its `RED.server` and to another server: before packages
// are loaded, because socket.io takes the handlers that there are then, and hands them what is not its own. The result
// serves both.
function attach(express, endpoints, { httpNode, httpAdmin }, { sockets, socketMode, root }) {
    const admin = server();
    endpoints.on("request", app(express, [[root, httpNode]]));
    // Node-RED parses bodies too. The limit counts what compressed ones become.
    const parsers = [[express.json({ limit: LIMIT })], [express.urlencoded({ limit: LIMIT, extended: true })]];
    admin.on("request", app(express, [...parsers, [httpAdmin]]));
    return async () => {
        await listen(endpoints, path.join(sockets, "endpoints.sock"), socketMode);
        await listen(admin, path.join(sockets, "admin.sock"), socketMode);
    };
}

module.exports = { server, attach, watchRoutes, needsPermission, report };
