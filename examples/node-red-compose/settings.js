// Settings of the Node-RED behind flowgate. There is no adminAuth: only flowgate can reach it.
module.exports = {
    uiPort: process.env.PORT || 1880,
    httpAdminRoot: "/admin",
    flowFile: "flows.json",
};
