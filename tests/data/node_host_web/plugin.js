module.exports = function (RED) {
    RED.plugins.registerPlugin("web-plugin", { type: "tests" });
};
