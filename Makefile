# The set-up commands, on a fresh Debian 12 with git, make and a Rust toolchain: each installs what it lacks
# (as root; otherwise it names the command) and runs.

.PHONY: demo test test-slots lint fuzz bench soak mutants steer survive deb model dashboard image

demo:
	@sh tests/needs.sh demo
	cargo build --release --locked
	./target/release/outboxd demo

# The tests wait more than they work: twice as many at once as there are processors take half the time.
test test-slots: export RUST_TEST_THREADS ?= $(shell expr 2 '*' $$(nproc))

test: lint
	@sh tests/needs.sh test
	cargo test --locked
	cargo test --locked --features otlp --test it otlp::

# The tests that run the binary, with one slot and with as many as anybody needs: nothing may rely on how many there are.
test-slots:
	@sh tests/needs.sh test
	for slots in 1 512; do TEST_SLOTS=$$slots cargo test --locked --test it || exit 1; done

lint:
	@sh tests/needs.sh demo
	cargo fmt --all -- --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --features otlp --bins --test it -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items

# Each fuzz target for SECONDS, on top of what earlier runs found (target/fuzz). Needs `cargo install cargo-fuzz` and a C++
# compiler. Coverage by instrumentation is all that is taken from the unstable side; there is no unsafe code to sanitize.
SECONDS ?= 60
FUZZ_TARGETS := $(basename $(notdir $(wildcard tests/fuzz/targets/*.rs)))

fuzz:
	@sh tests/needs.sh fuzz
	cp Cargo.lock tests/fuzz/Cargo.lock
	FUZZ_SEEDS=$(CURDIR)/target/fuzz/seeds cargo test --quiet --locked --lib fuzz::tests::each_door
	set -e; for target in $(FUZZ_TARGETS); do \
	    mkdir -p target/fuzz/corpus/$$target; \
	    RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir tests/fuzz --sanitizer none $$target \
	        target/fuzz/corpus/$$target tests/fuzz/corpus/$$target target/fuzz/seeds/$$target -- \
	        -dict=tests/fuzz/dictionaries/$$target.dict -max_total_time=$(SECONDS) -timeout=10 -rss_limit_mb=2048; \
	done

# What a delivery costs, side by side with others, and the rest that is promised of speed: all of it, or one scenario
# (`make bench SCENARIO="throughput --turns 7"`), or `SCENARIO=--quick`. Wants the machine to itself.
SCENARIO ?= all

bench:
	@sh tests/needs.sh bench
	cargo bench --profile dist --locked --bench delivery -- $(SCENARIO)

# Everything breaks around several daemons for SECONDS (1800), by SEED, at RATE rows a second; then everything must settle. Prints
# what was broken and what came of it, and fails on anything lost, unexpected, changed or settled by somebody else.
SEED ?= $(shell date +%s)
RATE ?= 200
SOAK_SECONDS := $(if $(filter file,$(origin SECONDS)),1800,$(SECONDS))

soak:
	@sh tests/needs.sh test
	CHAOS_SECONDS=$(SOAK_SECONDS) CHAOS_SEED=$(SEED) CHAOS_RATE=$(RATE) cargo test --locked --test chaos -- --nocapture p1_

# Takes away each comparison that keeps a lease's word, and shows that a test notices.
mutants:
	@sh tests/needs.sh test
	sh tests/mutants.sh

# The Grafana dashboard against Grafana's own types.
dashboard:
	@sh tests/grafana.sh

# The image, built by buildah, and two containers of it that deliver to each other.
image:
	@sh tests/needs.sh image
	@sh tests/image.sh

# `outboxd requeue` on 100,000 rows beside a delivering daemon: counted, interrupted, gone on with.
steer:
	@sh tests/needs.sh test
	STEER_ROWS=100000 cargo test --locked --test it steer::a_run_that_is_interrupted -- --nocapture

# What each fault of Postgres does and how long the recovery takes, and migrations beside a transaction that is open for 60 s.
survive:
	@sh tests/needs.sh test
	MIGRATION_SECONDS=60 cargo test --locked --test it postgres:: -- --nocapture --test-threads=2

# A Debian package: binary, units, example configurations, manual, completions. Needs `cargo install --locked cargo-deb`.
deb:
	@sh tests/needs.sh deb
	cargo build --profile dist --locked
	rm -rf target/man && target/dist/outboxd man --out target/man
	mkdir -p target/completions
	set -e; for shell in bash zsh fish; do target/dist/outboxd completions $$shell > target/completions/outboxd.$$shell; done
	cargo deb --no-build --profile dist

# The model of a row's life (tests/model) in larger worlds than `make test` has time for: some minutes.
model:
	OUTBOXD_MODEL=large cargo test --locked --release --test model -- --nocapture --test-threads 1
