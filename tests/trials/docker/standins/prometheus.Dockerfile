# A stand-in for prom/prometheus: Debian's version, the same paths, the same user.
FROM tutti-standin/debian:bookworm
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends prometheus wget \
    && rm -rf /var/lib/apt/lists/* \
    && install --directory --owner 65534 --group 65534 /prometheus
USER 65534:65534
ENTRYPOINT ["/usr/bin/prometheus"]
