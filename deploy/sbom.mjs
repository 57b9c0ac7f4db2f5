#!/usr/bin/env node
// Writes the software bill of materials of the program, as CycloneDX 1.6 JSON, to standard output: the crates that are linked into
// it with its default features, as Cargo.lock names them, with versions, licences, hashes and who depends on whom. C libraries
// (SQLite, QuickJS, AWS-LC, mimalloc) are parts of the crates that bring them (`-sys`). The same sources give the same text.
//
//   deploy/sbom [TARGET]        (e.g. x86_64-unknown-linux-gnu; by default the machine's)
//
// SOURCE_DATE_EPOCH is the time in it; without it, that of the commit. Needs cargo, with the crates in its cache or a network.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const top = join(dirname(fileURLToPath(import.meta.url)), "..");
const run = (program, ...args) =>
  execFileSync(program, args, { cwd: top, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "inherit"] });

const target = process.argv[2] ?? run("rustc", "-vV").match(/^host: (.*)$/m)[1];
const metadata = JSON.parse(run("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target));
const key = (name, version) => `${name}@${version}`;
const packages = new Map(metadata.packages.map((found) => [key(found.name, found.version), found]));

// What is linked: neither build scripts' crates nor those of tests, nor macros, which run in the compiler.
const tree = run(
  "cargo", "tree", "--locked", "--package", "flowgate", "--target", target, "--edges", "normal,no-proc-macro",
  "--prefix", "depth", "--format", "\t{p}",
);
const linked = new Map();
const above = [];
for (const line of tree.split("\n").filter(Boolean)) {
  const [, depth, name, version] = line.match(/^(\d+)\t(\S+) v(\S+)/);
  const id = key(name, version);
  above[depth] = id;
  if (!linked.has(id)) linked.set(id, new Set());
  if (depth > 0) linked.get(above[depth - 1]).add(id);
}

const checksums = new Map();
for (const block of readFileSync(join(top, "Cargo.lock"), "utf8").split("[[package]]")) {
  const value = (name) => block.match(new RegExp(`^${name} = "(.*)"$`, "m"))?.[1];
  if (value("checksum")) checksums.set(key(value("name"), value("version")), value("checksum"));
}

// Crates of before 2020 write a slash for OR.
const expression = (license) => license.replace(/\s*\/\s*/g, " OR ");

function component(id) {
  const { name, version, license, description, repository, source } = packages.get(id);
  const found = { type: "library", "bom-ref": id, name, version };
  if (description) found.description = description.trim().replace(/\s+/g, " ");
  if (checksums.has(id)) found.hashes = [{ alg: "SHA-256", content: checksums.get(id) }];
  if (license) found.licenses = [{ expression: expression(license) }];
  // Only crates of the registry have a package URL: another there may have the name of one of ours.
  if (source?.startsWith("registry+")) found.purl = `pkg:cargo/${name}@${version.replaceAll("+", "%2B")}`;
  if (repository) found.externalReferences = [{ type: "vcs", url: repository }];
  return found;
}

const { version } = metadata.packages.find((found) => found.name === "flowgate");
const own = key("flowgate", version);
const epoch = process.env.SOURCE_DATE_EPOCH ?? run("git", "log", "-1", "--format=%ct").trim();
const ids = [...linked.keys()].sort();
const program = { ...component(own), type: "application" };
const bom = {
  $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
  bomFormat: "CycloneDX",
  specVersion: "1.6",
  version: 1,
  metadata: {
    timestamp: new Date(Number(epoch) * 1000).toISOString(),
    component: program,
    properties: [{ name: "flowgate:target", value: target }],
  },
  components: ids.filter((id) => id !== own).map(component),
  dependencies: ids.map((ref) => ({ ref, dependsOn: [...linked.get(ref)].sort() })),
};
process.stdout.write(`${JSON.stringify(bom, null, 2)}\n`);
