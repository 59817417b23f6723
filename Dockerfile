# outboxd and nothing else: the binary, glibc, certificate authorities, licences and a list of what it is made of.
#
#   docker build --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) -t outboxd .
#
# The same sources, base images (pin both by digest for that: --build-arg RUST=docker.io/library/rust@sha256:...) and
# SOURCE_DATE_EPOCH make the same binary and the same files. There is no shell inside; `outboxd healthcheck` stands in for curl.
ARG RUST=docker.io/library/rust:1.95-bookworm

FROM ${RUST} AS build
ARG SOURCE_DATE_EPOCH=0
WORKDIR /src
COPY Cargo.toml Cargo.lock LICENSE ./
COPY config config
COPY sql sql
COPY src src
COPY deploy/image deploy/image
# No path of the building machine gets into the binary.
RUN RUSTFLAGS="--remap-path-prefix=/src=. --remap-path-prefix=${CARGO_HOME:-/root/.cargo}=/cargo" \
    cargo build --profile dist --locked --bin outboxd \
    && sh deploy/image/root.sh target/dist/outboxd /image

FROM scratch
ARG SOURCE_DATE_EPOCH=0
LABEL org.opencontainers.image.title="outboxd" \
      org.opencontainers.image.description="Posts sealed webhooks from a Postgres outbox, signed, at least once" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="scratch"
COPY --from=build /image /
# What held a large body goes back to the system when it was sent; glibc would keep it for the next.
ENV GLIBC_TUNABLES=glibc.malloc.mmap_threshold=1048576
# By number, so that Kubernetes sees that it is not root.
USER 65532:65532
EXPOSE 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/bin/outboxd", "healthcheck"]
ENTRYPOINT ["/usr/bin/outboxd"]
CMD ["run"]
