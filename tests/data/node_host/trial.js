// Nodes for the tests of the node host. A `trial` node runs the code of its properties: `setup` when it is made, `input`
// for each message, `closing` when it is closed. A `trial-config` holds a credential.
module.exports = function (RED) {
    const body = (names, code) => new Function("RED", "node", "config", "require", ...names, code || "");

    RED.nodes.registerType("trial", function (config) {
        RED.nodes.createNode(this, config);
        const input = body(["msg", "send", "done"], config.input);
        const closing = body(["removed"], config.closing);
        body([], config.setup)(RED, this, config, require);
        this.on("input", (msg, send, done) => input(RED, this, config, require, msg, send, done));
        this.on("close", (removed, done) => {
            closing(RED, this, config, require, removed);
            done();
        });
    });

    RED.nodes.registerType(
        "trial-config",
        function (config) {
            RED.nodes.createNode(this, config);
            this.label = config.label;
        },
        { credentials: { secret: { type: "password" } } },
    );
};
