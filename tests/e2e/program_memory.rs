//! The memory of the program itself.

use crate::harness::{Process, until};
use tempfile::tempdir;

#[tokio::test]
async fn what_only_the_start_has_needed_of_the_program_is_unmapped_and_the_gateway_serves_on() {
    let directory = tempdir().unwrap();
    let process = Process::start("", directory.path());
    let token = process.sign_in("admin").await;
    let started = process.memory("RssFile");
    until("less of the program is mapped", async || {
        process.memory("RssFile") < started / 2
    })
    .await;
    assert_eq!(process.get("/flows").token(&token).send().await.status, 200);
    process.sign_in("admin").await;
}
