# The two set-up commands, on a fresh Debian 12 with git, make and a Rust toolchain: each installs what it lacks
# (as root; otherwise it names the command) and runs.

.PHONY: demo test lint

demo:
	@sh tests/needs.sh demo
	cargo build --release --locked
	./target/release/outboxd demo

test: lint
	@sh tests/needs.sh test
	cargo test --locked

lint:
	@sh tests/needs.sh demo
	cargo fmt --all -- --check
	cargo clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items
