"""Tools of MCP servers: processes or addresses that speak the Model Context Protocol.

Only ``connection``, ``http``, ``results`` and ``stdio`` import the protocol's SDK (extra ``mcp``), and they
are imported when a server is started.
"""

from orchestrator.mcp.config import Found, ServerConfig
from orchestrator.mcp.finding import Named, find_servers
from orchestrator.mcp.server import Happening
from orchestrator.mcp.servers import Servers, check_extra

__all__ = ["Found", "Happening", "Named", "ServerConfig", "Servers", "check_extra", "find_servers"]
