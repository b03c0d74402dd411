# The programs of the initializer steps, an image each. From the root of the repository:
#   docker build -f docker/initializer.Dockerfile --target dataset-initializer -t dataset-initializer .
#   docker build -f docker/initializer.Dockerfile --target model-initializer -t model-initializer .
# They run as user 65532 and write to /workspace only: give the pod `securityContext: {fsGroup: 65532}`, so that the
# volume there is theirs. The root file system may be read-only with an emptyDir at /tmp.
#
# Both bases have Debian 12's Python 3.11 at /usr/bin/python3.11. The second one has no shell and no package manager.
ARG BUILD_IMAGE=docker.io/library/debian:12-slim
ARG BUILD_DIGEST=
ARG BASE_IMAGE=gcr.io/distroless/python3-debian12:nonroot
ARG BASE_DIGEST=

FROM ${BUILD_IMAGE}${BUILD_DIGEST:+@}${BUILD_DIGEST} AS build
ARG UV_VERSION=0.13.9
# Packages of the operator that the initializers do not import.
ARG LEFT_OUT="aiohttp cryptography google-re2 kubernetes-asyncio opentelemetry-sdk"
ARG SOURCE_DATE_EPOCH=0
ENV UV_SYSTEM_CERTS=1 UV_NO_CACHE=1 UV_LINK_MODE=copy UV_PROJECT_ENVIRONMENT=/opt/ktrain UV_PYTHON=/usr/bin/python3.11 PYTHONDONTWRITEBYTECODE=1
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates python3-venv \
  && python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir --no-compile "uv==$UV_VERSION"
WORKDIR /src
COPY . .
# Versions and hashes are those of uv.lock. What a build writes of its own, times among it, is removed; bytecode is
# compiled without times, and never checked against its source.
RUN /opt/uv/bin/uv sync --frozen --no-dev --no-editable --extra initializers \
    $(printf -- ' --no-install-package %s' $LEFT_OUT) \
  && find /opt/ktrain \( -name uv_cache.json -o -name .lock \) -delete \
  && find /opt/ktrain -name RECORD -exec sed -i /uv_cache.json/d {} + \
  && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/ktrain/lib \
  && mkdir /workspace && chown 65532:65532 /workspace \
  && find /opt/ktrain /workspace -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +

FROM ${BASE_IMAGE}${BASE_DIGEST:+@}${BASE_DIGEST} AS initializer
COPY --from=build /opt/ktrain /opt/ktrain
COPY --from=build --chown=65532:65532 /workspace /workspace
ENV PATH=/opt/ktrain/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    HF_HUB_DISABLE_TELEMETRY=1
WORKDIR /workspace
USER 65532:65532

FROM initializer AS dataset-initializer
ENTRYPOINT ["python", "-m", "ktrain.initializers.dataset"]

FROM initializer AS model-initializer
ENTRYPOINT ["python", "-m", "ktrain.initializers.model"]
