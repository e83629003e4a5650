"""Tools of MCP servers: processes or addresses that speak the Model Context Protocol.

Only ``connection``, ``http``, ``results`` and ``stdio`` import the protocol's SDK (extra ``mcp``), and they
are imported when a server is started.
"""

from orchestrator.mcp.config import PROJECT_FILE, Found, ServerConfig
from orchestrator.mcp.finding import Named, find_servers
from orchestrator.mcp.grants import own_servers, reach
from orchestrator.mcp.server import Happening
from orchestrator.mcp.servers import Servers, check_extra, may_start

__all__ = [
    "PROJECT_FILE",
    "Found",
    "Happening",
    "Named",
    "ServerConfig",
    "Servers",
    "check_extra",
    "find_servers",
    "may_start",
    "own_servers",
    "reach",
]
