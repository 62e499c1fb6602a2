#!/bin/sh
# Makes the certificates of these tests, for a hundred years; one of a client that has expired.
# Their keys are here for everybody to see, and of no other use.
set -eu
cd "$(dirname "$0")"
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 \
        -keyout "$1.key" -out "$1.pem" -subj "/CN=$1"
}
signed() { # name, authority, serial number, days
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" \
        -subj "/CN=$1"
    printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' > "$1.ext"
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -set_serial "$3" -out "$1.pem" \
        -days "$4" -extfile "$1.ext"
    rm "$1.csr" "$1.ext"
}
authority authority
authority stranger
signed sidecar authority 2 36500
signed renewed authority 3 36500
signed client authority 4 36500
signed expired authority 5 -1
signed unknown stranger 6 36500
openssl pkey -in sidecar.key -aes256 -passout pass:locked -out locked.key
