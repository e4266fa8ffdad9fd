# syntax=docker/dockerfile:1
# clew in a container: `docker build -t clew .`, then `docker run --rm -v "$PWD":/work clew train shakespeare-lstm`.
# For an NVIDIA GPU: `docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 -t clew:cuda .`, then
# `docker run --gpus all ...`.
ARG PYTHON=3.12
FROM python:${PYTHON}-slim

# The index of torch's wheels: for the CPU only, or for a CUDA version. Everything else comes from PyPI.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# The extras to install, such as "[search,tables,wandb]".
ARG EXTRAS=""

# A C++ compiler, for training.compile=true on a CPU.
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

# The versions that clew is tested with. torch comes first, so that a change to clew does not download it again.
COPY constraints.txt /opt/clew/
RUN pip install --no-cache-dir -c /opt/clew/constraints.txt --extra-index-url "${TORCH_INDEX}" torch

COPY pyproject.toml README.md LICENSE /opt/clew/
COPY clew /opt/clew/clew
RUN pip install --no-cache-dir -c /opt/clew/constraints.txt "/opt/clew${EXTRAS}"

# Files are not written as root. `docker run --user "$(id -u):$(id -g)"` writes them as the user of the host.
RUN useradd --create-home --uid 1000 clew \
    && mkdir -p /work /cache \
    && chown clew:clew /work /cache \
    && chmod 777 /work /cache
USER clew
ENV CLEW_CACHE=/cache PYTHONUNBUFFERED=1
WORKDIR /work
EXPOSE 8765
ENTRYPOINT ["clew"]
CMD ["--help"]
