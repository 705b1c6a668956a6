# The command `leasehold` as an image of some 7 MB: one static file with the list of its dependencies, the CAs for TLS,
# and busybox, whose `cp` an init container needs (examples/kubernetes.yaml).
#   docker build --tag leasehold .
#   docker run --rm leasehold --url redis://host inspect nightly
FROM rust:1-alpine AS build
RUN apk add --no-cache musl-dev ca-certificates && cargo install --locked --debug --version '^0.7' cargo-auditable
WORKDIR /leasehold
COPY . .
RUN cargo auditable build --profile dist --locked --package leasehold-cli

FROM busybox:1-musl
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /leasehold/target/dist/leasehold /usr/local/bin/
COPY LICENSE-APACHE LICENSE-MIT /usr/share/licenses/leasehold/
# It needs no rights, and no home.
USER 65534:65534
ENTRYPOINT ["leasehold"]
