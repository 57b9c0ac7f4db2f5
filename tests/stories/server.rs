//! The program as operators start and end it, and what its sockets take.

use crate::harness::Process;

#[tokio::test]
async fn a_term_signal_ends_the_program_with_0() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start("", directory.path());
    process.sign_in("admin").await;
    process.signal("TERM");
    assert_eq!(process.end().code(), Some(0));
}
