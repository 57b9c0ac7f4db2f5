//! Using the stock command-line client (node-red-admin from npm) against the program.

use crate::client::{Client, PASSWORD};
use crate::harness::Gateway;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A machine with the command-line client, which keeps target and token in the home directory.
pub struct Machine {
    home: tempfile::TempDir,
    /// The certificate that Node.js shall trust.
    certificate: PathBuf,
}

impl Machine {
    pub fn that_trusts(gateway: &Gateway) -> Self {
        Self::with_certificate(gateway.directory.path().join("certs/self-signed.crt"))
    }

    /// The same for a gateway with this certificate.
    pub fn with_certificate(certificate: PathBuf) -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            certificate,
        }
    }

    /// Runs a command of the client.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(client());
        command.args(arguments);
        self.run_with_home(command).await
    }

    /// Runs a command that reads from a terminal, and types these lines at its prompts.
    async fn run_and_type(&self, argument: &str, lines: &[(&str, &str)]) -> Output {
        let mut command = Command::new("script");
        // `script` (bsdutils) makes the terminal and writes down what appears on it.
        let client = client();
        let inner = format!("{} {argument}", client.display());
        command.args(["--quiet", "--return", "--flush", "--command", &inner]);
        let shown = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        command.arg(&shown).stdin(Stdio::piped());
        self.environment(&mut command);
        let lines: Vec<(String, String)> = lines
            .iter()
            .map(|(prompt, line)| ((*prompt).to_owned(), (*line).to_owned()))
            .collect();
        blocking(move || answer_prompts(command, &shown, &lines)).await
    }

    async fn run_with_home(&self, mut command: Command) -> Output {
        command.stdin(Stdio::null());
        self.environment(&mut command);
        blocking(move || command.output().unwrap()).await
    }

    fn environment(&self, command: &mut Command) {
        command
            .env("HOME", self.home.path())
            .env("NODE_EXTRA_CA_CERTS", &self.certificate)
            .env("NO_PROXY", "*")
            .env_remove("NODE_OPTIONS");
    }

    /// Points the client to a gateway and signs in.
    pub async fn log_in(&self, client: &Client, user: &str, password: &str) -> Output {
        let url = format!("https://{}/", client.address);
        let target = self.run(&["target", &url]).await;
        assert_eq!(
            stdout(&target),
            format!("Target: https://{}\n", client.address)
        );
        self.run_and_type("login", &[("Username:", user), ("Password:", password)])
            .await
    }
}

fn client() -> PathBuf {
    let client =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_modules/.bin/node-red-admin");
    assert!(
        client.exists(),
        "tests/run installs it: npm ci --prefix tests"
    );
    client
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Types each line when its prompt has appeared on the terminal.
fn answer_prompts(mut command: Command, terminal: &Path, lines: &[(String, String)]) -> Output {
    use std::io::Write;
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let since = std::time::Instant::now();
    for (prompt, line) in lines {
        loop {
            let shown = std::fs::read(terminal).unwrap_or_default();
            if String::from_utf8_lossy(&shown).contains(prompt.as_str()) {
                break;
            }
            assert!(
                since.elapsed() < crate::harness::TEST_TIMEOUT,
                "no {prompt} prompt"
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        stdin.write_all(format!("{line}\r").as_bytes()).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    output
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    assert!(!output.status.success(), "{}", stdout(output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn the_stock_client_signs_in_and_lists_the_nodes() {
    let gateway = Gateway::start();
    let machine = Machine::that_trusts(&gateway);
    let signed_in = machine.log_in(&gateway, "admin", PASSWORD).await;
    assert!(
        stdout(&signed_in).contains("Logged in"),
        "{}",
        stdout(&signed_in)
    );
    assert!(!stdout(&signed_in).contains(PASSWORD));

    let list = stdout(&machine.run(&["list"]).await);
    assert!(list.contains("node-red/function"), "{list}");
    assert!(list.contains("enabled"));
    let module = stdout(&machine.run(&["info", "node-red"]).await);
    assert!(
        module.contains("Module:") && module.contains("node-red/inject"),
        "{module}"
    );
    let set = stdout(&machine.run(&["info", "node-red/link"]).await);
    assert!(set.contains("link in, link call, link out"), "{set}");
    let json = machine.run(&["info", "node-red/inject", "--json"]).await;
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["types"], serde_json::json!(["inject"]));
}

#[tokio::test]
async fn the_stock_client_shows_that_a_permission_is_missing() {
    let gateway = Gateway::start();
    let machine = Machine::that_trusts(&gateway);
    let url = format!("https://{}", gateway.address);
    machine.run(&["target", &url]).await;
    let anonymous = machine.run(&["list"]).await;
    assert_eq!(
        stderr(&anonymous),
        "Not logged in. Use 'login' to log in.\n"
    );

    let refused = machine.log_in(&gateway, "admin", "wrong").await;
    assert!(
        stdout(&refused).contains("Login failed"),
        "{}",
        stdout(&refused)
    );

    // It asks for the scope `*`: who may not do everything cannot sign in with it.
    let reader = machine.log_in(&gateway, "reader", PASSWORD).await;
    assert!(
        stdout(&reader).contains("Login failed"),
        "{}",
        stdout(&reader)
    );
}

#[tokio::test]
async fn the_stock_client_can_enable_built_in_nodes_but_neither_disable_nor_install() {
    let gateway = Gateway::start();
    let machine = Machine::that_trusts(&gateway);
    machine.log_in(&gateway, "admin", PASSWORD).await;
    for nodes in ["node-red/inject", "node-red"] {
        let enabled = stdout(&machine.run(&["enable", nodes]).await);
        assert!(enabled.contains("node-red/inject"), "{enabled}");
        let disabled = stderr(&machine.run(&["disable", nodes]).await);
        assert!(
            disabled.starts_with("400: the nodes are part of the engine"),
            "{disabled}"
        );
    }
    let unknown = stderr(&machine.run(&["enable", "node-red/nope"]).await);
    assert!(
        unknown.starts_with("400: there are no such nodes"),
        "{unknown}"
    );
    let missing = stderr(&machine.run(&["info", "other"]).await);
    assert_eq!(missing, "404: there is nothing here\n");
    for arguments in [["install", "node-red-dashboard"], ["remove", "other"]] {
        let refused = stderr(&machine.run(&arguments).await);
        assert!(
            refused.starts_with("403: no packages are installed or removed here"),
            "{arguments:?}: {refused}"
        );
    }
}

#[tokio::test]
async fn a_hash_of_the_stock_client_is_a_password_here() {
    let gateway = Gateway::start();
    let machine = Machine::that_trusts(&gateway);
    let made = machine
        .run_and_type("hash-pw", &[("Password:", "pass word")])
        .await;
    let made = stdout(&made);
    let hash = made
        .lines()
        .map(str::trim)
        .find_map(|line| line.find("$2").map(|at| &line[at..]));
    let user = format!(
        "[[auth.user]]\nname = \"hashed\"\npassword_hash = \"{}\"\npermissions = [\"*\"]",
        hash.unwrap_or_else(|| panic!("no hash in {made:?}"))
    );
    let gateway = gateway.restart_with(&user).await;
    let answer = gateway
        .sign_in_request("hashed", "pass word", "")
        .send()
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// It has no command that changes flows, so a policy has nothing to refuse it, a freeze included.
#[tokio::test]
async fn the_stock_client_works_with_every_policy_on() {
    let gateway = Gateway::with(
        "[policy]\nrequire_rev = true\nrequire_types = true\nforbid_types = [\"exec\"]\nrestrict_types = [\"file\"]\n\
         max_nodes = 1\nmax_bytes = \"1KiB\"\napprove = [\"*\"]\nread_only = true\n\
         [[policy.freeze]]\ncron = \"* * * * *\"\nduration = \"2h\"",
    );
    let machine = Machine::that_trusts(&gateway);
    let signed_in = stdout(&machine.log_in(&gateway, "admin", PASSWORD).await);
    assert!(signed_in.contains("Logged in"), "{signed_in}");
    let list = stdout(&machine.run(&["list"]).await);
    assert!(list.contains("node-red/exec"), "{list}");
    let enabled = stdout(&machine.run(&["enable", "node-red/inject"]).await);
    assert!(enabled.contains("node-red/inject"), "{enabled}");
}
