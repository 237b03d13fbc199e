# aoec in a container, with the versions of locks/run.txt, each file by its hash, and its kernels compiled:
#   docker build -t aoec --build-arg USER_ID=$(id -u) .
#   docker run --rm -v aoec:/home/aoec -v "$PWD:/work" aoec compile --tune model.onnx
FROM python:3.12-slim

# a user of its own, who may write into a folder that is mounted at /work where USER_ID is that folder's owner
ARG USER_ID=1000
RUN useradd --create-home --uid $USER_ID aoec && install --directory --owner=aoec /work

WORKDIR /src
COPY locks/run.txt locks/run.txt
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r locks/run.txt

COPY pyproject.toml LICENSE ./
COPY docs/package.md docs/package.md
COPY aoec aoec
COPY grammars grammars
COPY kernels kernels
RUN pip install --no-cache-dir --no-deps --no-build-isolation .

# kernels, bank and caches are in the user's home: a volume keeps them
USER aoec
WORKDIR /work
RUN python -m aoec.simulate.compile_kernels walk rows values
VOLUME /home/aoec
ENTRYPOINT ["aoec"]
