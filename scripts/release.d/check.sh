# What ./scripts/release check does; to be sourced by it.

# check_release DIRECTORY: tries the files of a release as those would who download them.
check_release() {
  local dir version arch
  dir=$(cd "$1" 2>/dev/null && pwd) || fail "there is no directory $1: run ./scripts/release --snapshot first"
  arch=$(go env GOARCH)
  version=$(basename "$dir"/oncegate_*_linux_"$arch".deb "_linux_$arch.deb")
  version=${version#oncegate_}
  if command -v sha256sum >/dev/null; then (cd "$dir" && sha256sum --check --quiet checksums.txt); else (cd "$dir" && shasum -a 256 --check --quiet checksums.txt); fi
  echo "ok: the checksums"
  check_again "$dir" "$version" "$arch"
  apt_usable || fail "the packages are tried by root on Debian, Ubuntu or a relative of theirs; everything else was ok"
  check_package "$dir" "$version" "$arch"
  check_image "$dir" "$version" "$arch"
}

# check_again: the same commit makes the same files in another directory, without anything that is cached.
check_again() {
  local file
  clone "$work/another place/oncegate"
  (cd scripts/release.d && CGO_ENABLED=0 GOFLAGS= go build -o "$work/release" .)
  GOCACHE=$work/cache "$work/release" --snapshot --only "linux/$3" --source "$work/another place/oncegate" --out "$work/again" >/dev/null
  for file in "$work/again"/oncegate_*; do
    cmp "$file" "$1/$(basename "$file")" || fail "$(basename "$file") differs when it is made again: is $1 of another commit or another Go?"
  done
  echo "ok: made again in another directory without a cache, $(ls "$work/again" | grep -c ^oncegate_) files are the same"
}

# check_package: on a Debian with nothing else, apt installs the .deb, and the service's user runs it on a PostgreSQL.
check_package() {
  local root=$work/root deb="oncegate_$2_linux_$3.deb" url delivered
  command -v debootstrap >/dev/null || apt_install debootstrap
  debootstrap --variant=minbase bookworm "$root" >"$work/debootstrap.log" 2>&1 || { tail -n 5 "$work/debootstrap.log" >&2; fail "debootstrap could not make a bare Debian"; }
  cp "$1/$deb" "$root/tmp/" # it depends on no other package, so apt needs no network
  in_root "apt-get install -y -q --no-install-recommends /tmp/$deb" >"$work/apt.log" 2>&1 || { tail -n 15 "$work/apt.log" >&2; fail "apt-get could not install $deb"; }
  [ "$(in_root 'oncegate version --output json' | sed -n 's/.*"version": *"v\(.*\)",*/\1/p')" = "$2" ] || fail "the installed binary does not say that it is $2: $(in_root 'oncegate version')"
  [ "$(in_root 'stat -c %U:%a /etc/oncegate/oncegate.env')" = root:600 ] || fail "others than root can read /etc/oncegate/oncegate.env"
  in_root 'id oncegate >/dev/null && test -e /usr/share/man/man1/oncegate-serve.1.gz' || fail "the user or the manual pages are missing"
  if command -v systemd-analyze >/dev/null; then
    # The bare Debian has no systemd, so the units are read here, with the program where it is.
    mkdir -p "$work/units"
    for unit in oncegate oncegate-migrate; do sed "s|/usr/bin/oncegate|$root/usr/bin/oncegate|" "$root/usr/lib/systemd/system/$unit.service" >"$work/units/$unit.service"; done
    systemd-analyze verify --man=no "$work/units"/*.service || fail "systemd refuses the units"
    systemd-analyze security --offline=yes --threshold=20 "$work/units/oncegate.service" >"$work/security.log" || { tail -n 1 "$work/security.log"; fail "the unit is less hardened than before"; }
  fi
  echo "ok: apt-get installs $deb on a bare Debian"

  own_postgres
  url=$(.oncegate/bin/oncegate-postgres start --dir "$work/postgres" --name release --database oncegate --until-pid $$ --fresh)
  cat >"$root/etc/oncegate/oncegate.env" <<END
DATABASE_URL=$url
ONCEGATE_SOURCE_PROVIDER=github
ONCEGATE_SOURCE_SECRET=a-secret-of-the-check
ONCEGATE_PUBLIC=127.0.0.1:0
ONCEGATE_ADMIN=127.0.0.1:0
END
  as_service "migrate up" >"$work/migrate.log" 2>&1 || { cat "$work/migrate.log" >&2; fail "the service's user cannot make the tables"; }
  as_service "config check" >"$work/config.log" 2>&1 || { cat "$work/config.log" >&2; fail "the configuration of the package is refused"; }
  as_service "doctor" >"$work/doctor.log" 2>&1 || { cat "$work/doctor.log" >&2; fail "doctor finds something"; }
  echo "ok: the service's user makes the tables"

  in_root "apt-get install -y -q --reinstall /tmp/$deb" >"$work/apt.log" 2>&1 || { tail -n 15 "$work/apt.log" >&2; fail "apt-get could not install $deb again"; }
  grep -q a-secret-of-the-check "$root/etc/oncegate/oncegate.env" || fail "an upgrade overwrote /etc/oncegate/oncegate.env"
  in_root "apt-get remove -y -q oncegate" >"$work/apt.log" 2>&1 || { tail -n 15 "$work/apt.log" >&2; fail "apt-get could not remove oncegate"; }
  [ -e "$root/etc/oncegate/oncegate.env" ] && [ ! -e "$root/usr/bin/oncegate" ] || fail "remove took the configuration, or left the binary"
  in_root "apt-get purge -y -q oncegate" >"$work/apt.log" 2>&1
  [ ! -e "$root/etc/oncegate/oncegate.env" ] || fail "purge left the configuration"
  echo "ok: an upgrade keeps the configuration, remove keeps it, and purge removes it"
}

# check_image: the image's files run on an empty root, as its user, which may write nowhere.
check_image() {
  local root=$work/image layer
  mkdir -p "$root" "$work/layers"
  tar -xf "$1/oncegate_$2_linux_$3_image.tar" -C "$work/layers"
  for layer in "$work/layers"/*.tar.gz; do tar -xzf "$layer" -C "$root"; done
  chroot --userspec=65532:65532 "$root" /oncegate version >"$work/version.log" || fail "the binary of the image does not start on an empty root"
  grep -q "$2" "$work/version.log" || fail "the image has another version: $(cat "$work/version.log")"
  [ "$(grep -c BEGIN "$root/etc/ssl/certs/ca-certificates.crt")" -gt 100 ] || fail "the image has no root certificates"
  echo "ok: the image of linux/$3"
}

# in_root COMMAND: runs a command on the bare Debian. What is mounted for it goes with the command.
in_root() {
  unshare --mount --fork -- bash -c 'mount -t proc proc "$1/proc" && exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive /bin/sh -c "$2"' - "$work/root" "$1"
}

# as_service COMMAND: runs oncegate as the units do, with the environment that root may read.
as_service() {
  in_root "set -a; . /etc/oncegate/oncegate.env; set +a; exec setpriv --reuid=oncegate --regid=oncegate --init-groups oncegate $1"
}
