# The service as an image: `docker build -t sfumato .`, or `docker compose up`.
# Nothing is written outside /var/lib/sfumato and /tmp, so that the root can be read-only.
# tests/test_deployment.py runs the same steps without a container.

FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
RUN python -m venv --without-pip /opt/sfumato
RUN pip --python /opt/sfumato/bin/python install --no-cache-dir --constraint constraints.txt "$(echo /wheels/sfumato-*.whl)[otel,postgres,service]"

FROM python:3.12-slim
RUN groupadd --gid 10001 sfumato \
    && useradd --uid 10001 --gid sfumato --no-create-home --home-dir /var/lib/sfumato --shell /usr/sbin/nologin sfumato \
    && install --directory --owner sfumato --group sfumato --mode 0700 /var/lib/sfumato
COPY --from=build /opt/sfumato /opt/sfumato
ENV PATH=/opt/sfumato/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    XDG_STATE_HOME=/var/lib/sfumato
USER 10001:10001
WORKDIR /var/lib/sfumato
VOLUME /var/lib/sfumato
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]
ENTRYPOINT ["sfumato"]
CMD ["serve", "--config", "/etc/sfumato/sfumato.toml", "--host", "0.0.0.0", "--behind-proxy", "--port", "8080"]
