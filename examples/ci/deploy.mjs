// Deploys a flow set with node-red-admin: node deploy.mjs flows.json
//   FLOWGATE             its address, such as https://flows.example.org:8443
//   FLOWGATE_TOKEN       a service token with flows.read, flows.write and nodes.read
//   NODE_EXTRA_CA_CERTS  optional: a PEM file with the certificate to trust

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "package.json"));
const config = require("node-red-admin/lib/config.js");
const { request } = require("node-red-admin/lib/request.js");

// Types that are no nodes.
const STRUCTURE = ["tab", "group", "subflow"];

const directory = mkdtempSync(join(tmpdir(), "node-red-admin-"));
try {
    config.init(directory);
    config.target(process.env.FLOWGATE);
    config.tokens({ access_token: process.env.FLOWGATE_TOKEN });
    await deploy(JSON.parse(readFileSync(process.argv[2], "utf8")));
} catch (error) {
    console.error(error.response?.data?.message ?? error.message);
    process.exitCode = 1;
} finally {
    rmSync(directory, { recursive: true });
}

async function deploy(flows) {
    const sets = await request("/nodes");
    const installed = new Set(sets.filter((set) => set.enabled).flatMap((set) => set.types));
    const needed = flows.map((node) => node.type).filter((type) => !STRUCTURE.includes(type) && !type.startsWith("subflow:"));
    const missing = [...new Set(needed)].filter((type) => !installed.has(type));
    if (missing.length > 0) {
        throw new Error(`missing node types: ${missing.join(", ")}`);
    }
    console.log("all node types are installed");

    const headers = { "Node-RED-API-Version": "v2", "Node-RED-Deployment-Type": "full" };
    const { rev } = await request("/flows", { headers: { ...headers } });
    const deployed = await request("/flows", { method: "POST", headers: { ...headers }, data: { flows, rev } });
    console.log(`deployed ${deployed.rev}`);
}
