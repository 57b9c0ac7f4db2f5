//! The program: parses the arguments, runs the command, ends with its exit code.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    flowgate::cli::main()
}
