# syntax=docker/dockerfile:1
# Evidence is mounted read-only at /evidence; the root file system may be read-only, with a tmpfs at /tmp.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md constraints.txt ./
COPY kforensics kforensics
# Kernels for any processor of the architecture: the image is built on one machine and runs on others.
ENV KFORENSICS_PORTABLE_KERNELS=1
RUN python -m venv /opt/kforensics \
    && /opt/kforensics/bin/pip install --no-cache-dir --constraint constraints.txt . \
    && /opt/kforensics/bin/python -m compileall -q /opt/kforensics \
    && /opt/kforensics/bin/python -m kforensics.parsers.kernels \
    && /opt/kforensics/bin/pip uninstall --yes pip

FROM python:3.13-slim
COPY --from=build /opt/kforensics /opt/kforensics
ENV PATH=/opt/kforensics/bin:$PATH KFORENSICS_PORTABLE_KERNELS=1 PYTHONDONTWRITEBYTECODE=1
# No user of the image owns anything. Run it as the user of the broker, who may read the log directory.
USER 65532:65532
WORKDIR /evidence
VOLUME ["/evidence"]
ENTRYPOINT ["kforensics"]
CMD ["--help"]
