// Evaluates a settings.js of Node-RED without anything of a machine: files, variables and modules are stand-ins that leave marks
// in the settings (evaluate.rs has the same characters). `environment` is "marks", "none", or an object with variables.
(function (source, directory, environment) {
    "use strict";
    const VARIABLE = (name) => `\uE000${name}\uE001`;
    const FILE = (path) => `\uE002${path}\uE003`;
    const MADE = (by) => `\uE004${by}\uE005`;
    const variable = (name) => {
        if (typeof name !== "string" || environment === "none") return undefined;
        return environment === "marks" ? VARIABLE(name) : environment[name];
    };
    const env = new Proxy({}, { get: (_, name) => variable(name), has: (_, name) => variable(name) !== undefined });

    // What a module that is not evaluated makes: every use of it is one, and it becomes a mark in the settings.
    const made = (by) => new Proxy(function () {}, {
        get: (_, key) => {
            if (key === Symbol.toPrimitive) return () => MADE(by);
            if (key === "toJSON") return () => MADE(by);
            return key === "then" || typeof key === "symbol" ? undefined : made(by);
        },
        apply: () => made(by),
        construct: () => made(by),
    });

    const segments = (path) => {
        const kept = [];
        for (const segment of path.split("/")) {
            if (segment === "..") kept.pop();
            else if (segment !== "" && segment !== ".") kept.push(segment);
        }
        return kept.join("/");
    };
    const normalize = (path) => (path.startsWith("/") ? "/" : "") + segments(path);
    const path = {
        sep: "/", delimiter: ":", normalize,
        isAbsolute: (text) => String(text).startsWith("/"),
        join: (...parts) => normalize(parts.map(String).filter((part) => part !== "").join("/")),
        resolve: (...parts) => parts.map(String).reduce(
            (at, part) => normalize(part.startsWith("/") ? part : `${at}/${part}`), directory),
        dirname: (text) => normalize(String(text).replace(/\/[^/]*\/?$/, "")) || ".",
        basename: (text) => String(text).replace(/\/$/, "").split("/").pop(),
        extname: (text) => (/[^/](\.[^./]*)$/.exec(String(text)) || ["", ""])[1],
    };
    path.posix = path;
    const file = (name) => FILE(path.resolve(name));
    const modules = {
        path,
        fs: { readFileSync: file, existsSync: () => true },
        os: { EOL: "\n", homedir: () => env.HOME, hostname: () => env.HOSTNAME, platform: () => "linux", tmpdir: () => "/tmp" },
    };
    const required = [];
    const require = (name) => {
        const plain = String(name).replace(/^node:/, "");
        if (Object.hasOwn(modules, plain)) return modules[plain];
        if (required.length < 100 && !required.includes(plain)) required.push(plain);
        return made(`require("${plain}")`);
    };
    require.resolve = (name) => String(name);
    const process = {
        env, platform: "linux", argv: ["node", "settings.js"], version: "v20.0.0", versions: { node: "20.0.0" },
        cwd: () => directory, on: () => process, once: () => process,
        stdin: made("process.stdin"), exit: () => { throw new Error("it ends the process"); },
    };
    const nothing = () => undefined;
    const console = { log: nothing, info: nothing, warn: nothing, error: nothing, debug: nothing };
    const module = { exports: {} };
    new Function("module", "exports", "require", "process", "console", "__dirname", "__filename", "setTimeout", "setInterval", source)(
        module, module.exports, require, process, console, directory, `${directory}/settings.js`, nothing, nothing);

    const exported = module.exports;
    if (exported === null || typeof exported !== "object") throw new Error("it exports no object");
    const settings = {};
    const plain = (_, value) => (typeof value === "function" ? MADE("a function") : value);
    for (const key of Object.keys(exported)) {
        try {
            const text = JSON.stringify(exported[key], plain);
            if (text !== undefined) settings[key] = JSON.parse(text);
        } catch {
            settings[key] = MADE("a value that is no JSON");
        }
    }
    return JSON.stringify({ settings, required });
})
