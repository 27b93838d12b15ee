# A stand-in for apache/kafka: the same jars from Maven, the same variables, the same paths.
FROM tutti-standin/debian:bookworm
# hadolint ignore=DL3008
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY jars /opt/kafka/libs
COPY kafka-run /etc/kafka/docker/run
COPY kafka-archive /tmp/kafka-archive
RUN groupadd --gid 1000 appuser && useradd --uid 1000 --gid 1000 appuser \
    && mkdir -p /opt/kafka/config /opt/kafka/logs /var/lib/kafka/data /mnt/shared/config \
    && touch /etc/kafka/docker/server.properties /etc/kafka/docker/log4j2.yaml /etc/kafka/docker/tools-log4j2.yaml \
    && chown -R appuser:appuser /opt/kafka /var/lib/kafka /mnt/shared/config \
    && chmod 755 /etc/kafka/docker/run
USER 1000:1000
RUN /tmp/kafka-archive
CMD ["/etc/kafka/docker/run"]
