//! A registry of npm packages for tests: each with a node of its name, served over HTTP on this
//! machine.

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A registry.
pub struct Registry {
    pub address: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    address: String,
    packages: Mutex<BTreeMap<String, BTreeMap<String, Published>>>,
    requests: Mutex<Vec<String>>,
    /// The connections that never got a response, and those of them that the client has closed.
    stuck: Mutex<(usize, usize)>,
    archives: Option<TempDir>,
    held: watch::Sender<Held>,
}

/// Requests that wait.
#[derive(Clone, Default)]
struct Held {
    /// The part of their paths; none waits without.
    part: Option<&'static str>,
    count: usize,
}

#[derive(Clone)]
struct Published {
    facts: Json,
    archive: PathBuf,
    integrity: String,
}

/// A version of a package.
pub struct Package {
    pub name: &'static str,
    pub version: &'static str,
    /// `package.json` as far as it is special.
    pub facts: Json,
    /// The code of its node set; it may use `RED`, `name` and `version`.
    pub code: &'static str,
    /// Further files, with their texts.
    pub files: Vec<(&'static str, String)>,
}

/// A node that says which version it is of.
pub const NODE: &str = "RED.nodes.registerType(name, function (config) {
    RED.nodes.createNode(this, config);
    this.on('input', (msg, send, done) => { msg.payload = [name, version]; send(msg); done(); });
});";

impl Package {
    pub fn new(name: &'static str, version: &'static str) -> Self {
        Self {
            name,
            version,
            facts: json!({}),
            code: NODE,
            files: Vec::new(),
        }
    }
}

impl Registry {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            address: address.clone(),
            archives: Some(tempfile::tempdir().unwrap()),
            ..Shared::default()
        });
        let serving = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(Arc::clone(&serving), stream));
            }
        });
        Self { address, shared }
    }

    /// Publishes a version of a package.
    pub fn publish(&self, package: &Package) {
        self.add(package, None);
    }

    /// Publishes a version whose archive was exchanged afterwards.
    pub fn publish_tampered(&self, package: &Package) {
        // The hash of nothing.
        let integrity = "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==";
        self.add(package, Some(integrity.to_owned()));
    }

    /// Publishes a version whose archive has no other hash than one of SHA-1.
    pub fn publish_with_sha1(&self, package: &Package) {
        self.add(package, None);
        let mut packages = self.shared.packages.lock().unwrap();
        let versions = packages.get_mut(package.name).unwrap();
        let published = versions.get_mut(package.version).unwrap();
        published.integrity = hash("sha1", &published.archive);
    }

    fn add(&self, package: &Package, integrity: Option<String>) {
        let Package { name, version, .. } = package;
        let archives = self.shared.archives.as_ref().unwrap().path();
        let directory = archives.join(format!("{}-{version}", name.replace('/', "-")));
        let content = directory.join("package");
        fs::create_dir_all(&content).unwrap();
        let set = name.rsplit('/').next().unwrap();
        let mut facts =
            json!({ "name": name, "version": version, "node-red": { "nodes": { set: "n.js" } } });
        for (key, value) in package.facts.as_object().unwrap() {
            facts[key] = value.clone();
        }
        fs::write(content.join("package.json"), facts.to_string()).unwrap();
        let code = format!(
            "module.exports = function (RED) {{ const name = {set:?}, version = {version:?}; {} }};",
            package.code
        );
        fs::write(content.join("n.js"), code).unwrap();
        let html = format!(
            "<script type=\"text/html\" data-template-name=\"{set}\"></script><script>RED.nodes.registerType('{set}', {{ \
             category: 'function', defaults: {{ name: {{ value: '' }} }}, inputs: 1, outputs: 1, label: '{set}' }});</script>"
        );
        fs::write(content.join("n.html"), html).unwrap();
        for (file, text) in &package.files {
            fs::write(content.join(file), text).unwrap();
        }
        let archive = directory.join("package.tgz");
        let mut tar = Command::new("tar");
        tar.arg("-czf")
            .arg(&archive)
            .arg("-C")
            .arg(&directory)
            .arg("package");
        assert!(tar.status().unwrap().success());
        let integrity = integrity.unwrap_or_else(|| hash("sha512", &archive));
        let published = Published {
            facts,
            archive,
            integrity,
        };
        let mut packages = self.shared.packages.lock().unwrap();
        let versions = packages.entry((*name).to_owned()).or_default();
        versions.insert((*version).to_owned(), published);
    }

    /// The paths that were asked for.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// From now on requests for paths with this part wait until they are released.
    pub fn hold(&self, part: &'static str) {
        self.shared.held.send_modify(|held| held.part = Some(part));
    }

    /// How many requests have waited.
    pub fn held(&self) -> usize {
        self.shared.held.borrow().count
    }

    /// None waits any more.
    pub fn release(&self) {
        self.shared.held.send_modify(|held| held.part = None);
    }

    /// The connections that never got a response, and those of them that the client has closed.
    pub fn stuck(&self) -> (usize, usize) {
        *self.shared.stuck.lock().unwrap()
    }
}

/// The hash of an archive, as npm publishes it.
fn hash(algorithm: &str, archive: &Path) -> String {
    let code = "const [, kind, file] = process.argv; console.log(kind + '-' + crypto.createHash(kind).update(fs.readFileSync(file)).digest('base64'))";
    let output = Command::new("node")
        .args(["-e", code, algorithm])
        .arg(archive)
        .output();
    String::from_utf8(output.unwrap().stdout)
        .unwrap()
        .trim()
        .to_owned()
}

/// A package that the registry never answers for.
pub const STUCK: &str = "node-red-contrib-stuck";

async fn serve(shared: Arc<Shared>, mut stream: TcpStream) {
    let mut reader = BufReader::new(&mut stream);
    let (mut first, mut line) = (String::new(), String::new());
    if reader.read_line(&mut first).await.is_err() {
        return;
    }
    while line != "\r\n" {
        line.clear();
        if !matches!(reader.read_line(&mut line).await, Ok(1..)) {
            return;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let path = path.replace("%2f", "/").replace("%2F", "/");
    shared.requests.lock().unwrap().push(path.clone());
    if path.contains(STUCK) {
        shared.stuck.lock().unwrap().0 += 1;
        let _ = reader.read_to_end(&mut Vec::new()).await;
        shared.stuck.lock().unwrap().1 += 1;
        return;
    }
    wait_if_held(&shared, &path).await;
    let (status, body) = response(&shared, &path);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nAccess-Control-Allow-Origin: *\r\n\
         Content-Type: application/json\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
}

async fn wait_if_held(shared: &Shared, path: &str) {
    let mut changed = shared.held.subscribe();
    let waits = |held: &Held| held.part.is_some_and(|part| path.contains(part));
    if waits(&shared.held.borrow()) {
        shared.held.send_modify(|held| held.count += 1);
        // The registry lasts as long as its requests.
        let _ = changed.wait_for(|held| !waits(held)).await;
    }
}

fn response(shared: &Shared, path: &str) -> (&'static str, Vec<u8>) {
    let packages = shared.packages.lock().unwrap();
    if path.starts_with("/catalogue.json") {
        return ("200 OK", catalogue(&packages).to_string().into());
    }
    let path = path.trim_start_matches('/');
    if let Some((name, version)) = path.split_once("/-/") {
        let published = packages
            .get(name)
            .and_then(|p| p.get(version.trim_end_matches(".tgz")));
        return match published {
            Some(published) => ("200 OK", fs::read(&published.archive).unwrap()),
            None => ("404 Not Found", b"{}".to_vec()),
        };
    }
    let Some(versions) = packages.get(path) else {
        return ("404 Not Found", b"{\"error\":\"not found\"}".to_vec());
    };
    let latest = versions.keys().next_back().unwrap();
    let all = versions.iter().map(|(version, published)| {
        let mut facts = published.facts.clone();
        facts["dist"] = json!({ "tarball": format!("{}{path}/-/{version}.tgz", shared.address) });
        facts["dist"]["integrity"] = published.integrity.as_str().into();
        if facts["scripts"].is_object() {
            facts["hasInstallScript"] = true.into();
        }
        (version.clone(), facts)
    });
    let versions: serde_json::Map<_, _> = all.collect();
    let document = json!({ "name": path, "dist-tags": { "latest": latest }, "versions": versions });
    ("200 OK", document.to_string().into())
}

/// What the palette manager of the editor lists.
fn catalogue(packages: &BTreeMap<String, BTreeMap<String, Published>>) -> Json {
    let modules: Vec<Json> = packages
        .iter()
        .map(|(name, versions)| {
            json!({
                "id": name, "version": versions.keys().next_back(), "description": "a test", "types": [],
                "keywords": ["node-red"], "updated_at": "2026-01-01T00:00:00.000Z", "url": "https://example.com/",
            })
        })
        .collect();
    json!({ "name": "tests", "updated_at": "2026-01-01T00:00:00.000Z", "modules": modules })
}

/// A user directory in which npm may work: the runtime is in a directory above it.
pub fn apart(user: &Path) {
    let own = user.join("node_modules/@node-red");
    let runtime = fs::read_link(&own).unwrap();
    fs::remove_file(own).unwrap();
    let above = user.parent().unwrap().join("node_modules");
    fs::create_dir_all(&above).unwrap();
    fs::write(user.join("package.json"), r#"{ "private": true }"#).unwrap();
    std::os::unix::fs::symlink(runtime, above.join("@node-red")).unwrap();
}
