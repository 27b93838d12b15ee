# A stand-in for postgres: Debian's version, the same variables, the same paths, the same user.
FROM tutti-standin/debian:bookworm
# hadolint ignore=DL3008
RUN groupadd --gid 999 postgres && useradd --uid 999 --gid 999 --home /var/lib/postgresql postgres \
    && mkdir -p /etc/postgresql-common \
    && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \
    && apt-get update \
    && apt-get install --yes --no-install-recommends postgresql \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/lib/postgresql/15/bin/* /usr/local/bin/ \
    && install --directory --owner 999 --group 999 --mode 700 /var/lib/postgresql/data \
    && install --directory --owner 999 --group 999 --mode 775 /var/run/postgresql
COPY postgres-entrypoint /usr/local/bin/docker-entrypoint.sh
RUN chmod 755 /usr/local/bin/docker-entrypoint.sh
ENV PGDATA=/var/lib/postgresql/data
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
