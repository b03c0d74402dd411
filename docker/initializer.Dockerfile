# The programs of the initializer steps, an image each. From the root of the repository:
#   docker build -f docker/initializer.Dockerfile --target dataset-initializer -t dataset-initializer .
#   docker build -f docker/initializer.Dockerfile --target model-initializer -t model-initializer .
# They run as user 65532 and write to /workspace only: give the pod `securityContext: {fsGroup: 65532}`, so that the
# volume there is theirs. The root file system may be read-only with an emptyDir at /tmp.
FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY config config
COPY ktrain ktrain
RUN python -m venv /opt/ktrain && /opt/ktrain/bin/pip install --no-cache-dir '.[initializers]'

FROM python:3.13-slim-bookworm AS initializer
COPY --from=build /opt/ktrain /opt/ktrain
ENV PATH=/opt/ktrain/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    HF_HUB_DISABLE_TELEMETRY=1
RUN install -d -o 65532 -g 65532 /workspace
WORKDIR /workspace
USER 65532:65532

FROM initializer AS dataset-initializer
ENTRYPOINT ["python", "-m", "ktrain.initializers.dataset"]

FROM initializer AS model-initializer
ENTRYPOINT ["python", "-m", "ktrain.initializers.model"]
