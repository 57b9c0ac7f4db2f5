// nginx, HAProxy and flowgate in front of one upstream: TLS 1.3, one worker, one token that is looked up in a map.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Gateway, certificate, until } from '../../tests/load/parts.mjs';
import { freePort, isOpen } from './ports.mjs';
import { LOAD, pin } from './processes.mjs';

const TOKEN = 'a1b2c3d4'.repeat(8);

/** Where their files are. */
export const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'flowgate-bench-'));
process.on('exit', () => fs.rmSync(directory, { recursive: true, force: true }));
certificate(directory, 'server');

const file = (name, text) => {
    fs.writeFileSync(path.join(directory, name), text);
    return path.join(directory, name);
};

/** flowgate in front of an upstream. */
export async function flowgate(program, upstream) {
    const gateway = new Gateway('bench', program, `
        server = { listen = ["127.0.0.1:0"], workers = 1 }
        log = { format = "json", access = false }
        upstream = { url = "http://127.0.0.1:${upstream}" }`);
    await gateway.start();
    return {
        name: 'flowgate', pid: gateway.child.pid, base: `https://127.0.0.1:${gateway.port}`,
        token: await gateway.token(), end: () => gateway.stop(),
    };
}

async function started(name, port, ...command) {
    // A group of its own: its workers end with it.
    const child = spawn(command[0], command.slice(1), { detached: true, stdio: ['ignore', 'ignore', 'inherit'] });
    process.on('exit', () => process.kill(-child.pid, 'SIGKILL'));
    await until(`${name} listens`, () => isOpen(port));
    return { name, pid: child.pid, base: `https://127.0.0.1:${port}`, token: TOKEN };
}

/** nginx with all its files in the directory, which only its owner may read. */
const NGINX = `
${process.getuid() === 0 ? 'user root;' : ''}
daemon off; worker_processes 1; worker_rlimit_nofile 8192; pid NAME.pid; error_log stderr crit;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000000; keepalive_timeout 1h;
  client_max_body_size 8m; client_body_buffer_size 128k;
  client_body_temp_path NAME-body; proxy_temp_path NAME-proxy; fastcgi_temp_path NAME-f; uwsgi_temp_path NAME-u; scgi_temp_path NAME-s;
  HTTP
}`;
const nginxFile = (name, http) => file(`${name}.conf`, NGINX.replaceAll('NAME', name).replace('HTTP', http));

export async function nginx(upstream) {
    const port = await freePort();
    const conf = nginxFile('nginx', `
  map_hash_bucket_size 128;
  map $http_authorization $may { default 0; "Bearer ${TOKEN}" 1; }
  upstream flows { server 127.0.0.1:${upstream}; keepalive 512; keepalive_requests 1000000000; keepalive_timeout 1h; }
  server {
    listen 127.0.0.1:${port} ssl http2 backlog=4096;
    ssl_certificate server.pem; ssl_certificate_key server.key; ssl_protocols TLSv1.3;
    location / {
      if ($may = 0) { return 401; }
      proxy_pass http://flows; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffer_size 16k; proxy_buffers 16 16k; proxy_max_temp_file_size 0;
    }
  }`);
    return started('nginx', port, 'nginx', '-p', directory, '-c', conf);
}

export async function haproxy(upstream) {
    const port = await freePort();
    const both = ['server.pem', 'server.key'].map((name) => fs.readFileSync(path.join(directory, name))).join('\n');
    const tokens = file('tokens', `${TOKEN} 1\n`);
    const conf = file('haproxy.cfg', `
global
  nbthread 1
  maxconn 4000
  ssl-default-bind-options ssl-min-ver TLSv1.3
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  http-reuse always
frontend front
  bind 127.0.0.1:${port} ssl crt ${file('both.pem', both)} alpn h2,http/1.1
  http-request deny deny_status 401 unless { http_auth_bearer,map(${tokens}) -m found }
  default_backend back
backend back
  server flows 127.0.0.1:${upstream} pool-max-conn -1
`);
    return started('HAProxy', port, 'haproxy', '-db', '-f', conf);
}

/** An nginx that answers what the loads ask for. */
export async function serveUpstream() {
    const port = await freePort();
    file('10k', 'x'.repeat(10 << 10));
    file('1m', 'x'.repeat(1 << 20));
    file('chunked.html', 'x'.repeat(10 << 10));
    const conf = nginxFile('upstream', `
  default_type text/plain; types { text/html html; } open_file_cache max=10 inactive=1h; sendfile on;
  upstream itself { server 127.0.0.1:${port}; keepalive 64; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port} backlog=4096; root ${directory};
    location /128 { return 200 "${'x'.repeat(128)}"; }
    # A text that may be substituted has no known length.
    location /chunked { try_files /chunked.html =404; sub_filter 'y' 'z'; }
    # Answers when the whole body is there.
    location /post {
      proxy_pass http://itself/128; proxy_http_version 1.1; proxy_method GET; proxy_pass_request_body off;
      proxy_set_header Content-Length ""; proxy_set_header Connection "";
    }
  }`);
    const { pid } = await started('the upstream', port, 'nginx', '-p', directory, '-c', conf);
    pin(pid, LOAD);
    return port;
}
