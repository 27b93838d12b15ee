# A stand-in for versity/versitygw: the same program, built from its Go module.
FROM tutti-standin/debian:bookworm
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends wget && rm -rf /var/lib/apt/lists/*
COPY versitygw /usr/local/bin/versitygw
