// What a package may serve, and what it sees of a request.
"use strict";
const { Server: WebSocketServer } = require("ws");

module.exports = function (RED) {
    const seen = (request) => ({
        ip: request.ip,
        address: request.socket.remoteAddress,
        secure: request.socket.encrypted,
        host: request.headers.host,
        user: request.user,
        authorization: request.headers.authorization,
        cookie: request.headers.cookie,
        body: request.body,
    });
    const show = (request, response) => response.json(seen(request));

    RED.httpNode.get("/web/who", show);
    RED.httpNode.post("/web/echo", (request, response) => request.pipe(response));
    RED.httpNode.get("/web/missing", (request, response) => response.status(404).json({ own: true }));
    RED.httpNode.get("/web/never", () => {});
    RED.httpNode.get("/web/fail", () => {
        throw new Error("a secret of the package");
    });
    RED.httpNode.get("/web/moved", (request, response) => response.redirect("/web/who"));
    RED.httpNode.get("/web/exit", () => process.exit(7));
    RED.httpNode.get("/native", show);

    const { needsPermission } = RED.auth;
    RED.httpAdmin.get("/web-admin/plain", show);
    RED.httpAdmin.post("/web-admin/plain", show);
    RED.httpAdmin.get("/web-admin/asks", needsPermission("web.read"), show);
    RED.httpAdmin.post("/web-admin/asks", needsPermission("web.write"), show);
    RED.httpAdmin.get("/web-admin/static/*", show);
    RED.httpAdmin.use("/web-tool", show);
    // These belong to the runtime.
    RED.httpAdmin.get("/flows", show);
    RED.httpAdmin.get("/nodes/x/y/z", show);

    const sockets = new WebSocketServer({ noServer: true });
    RED.server.on("upgrade", (request, socket, head) => {
        if (!request.url.startsWith("/web/socket")) return;
        sockets.handleUpgrade(request, socket, head, (opened) => {
            opened.send(JSON.stringify(seen(request)));
            opened.on("message", (message) => opened.send(String(message).toUpperCase()));
        });
    });

    RED.nodes.registerType("web", function (config) {
        RED.nodes.createNode(this, config);
    });
};
